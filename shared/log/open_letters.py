"""The open dead letters: one entry for each log position and stage; lists show one for each document and stage.

The process keeps a summary of each letter in memory, to select by. The letters themselves stay on the log and are read
when they are shown. Each call first reads what was written since the last one.
"""

import asyncio
import heapq
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import structlog
from aiokafka import TopicPartition

from shared.contracts import DEFAULT_TENANT, DeadLetter, decode
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log import Log, Record
from shared.log.dead_letters import LetterFields, entry_of
from shared.log.read import Reader, reading
from shared.topics import DEAD_LETTERS

log = structlog.get_logger(__name__)

_TP = TopicPartition(DEAD_LETTERS, 0)
AT_ONCE: Final = 100  # letters per read: each may be 256 kB


class LetterSummary(NamedTuple):
    """The parts of a letter that are kept in memory."""

    id: str
    offset: int  # on dead.letters
    redrives: int
    last_seen: int  # ms since 1970
    tenant: str
    stage: str
    code: str
    source: str | None
    document_id: str | None
    generation: str | None = None


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects a tenant's letters by the given fields. A letter of unknown tenant belongs to the default tenant."""

    tenant: str
    ids: frozenset[str] | None = None
    stage: str | None = None
    code: str | None = None
    source: str | None = None
    document_id: str | None = None
    since: int | None = None  # ms since 1970: last failure at this time or later
    until: int | None = None  # ms since 1970: last failure before this time

    def takes(self, line: LetterSummary) -> bool:
        """Return whether the letter is selected."""
        return (
            line.tenant == self.tenant
            and (self.ids is None or line.id in self.ids)
            and self.stage in (None, line.stage)
            and self.code in (None, line.code)
            and self.source in (None, line.source)
            and self.document_id in (None, line.document_id)
            and (self.since is None or line.last_seen >= self.since)
            and (self.until is None or line.last_seen < self.until)
        )


class OpenLetter(msgspec.Struct, frozen=True, kw_only=True):
    """An open letter."""

    id: str  # 16 hex digits; equal for all failures of a document in one stage of a generation
    offset: int  # on dead.letters: newer letters have higher ones
    keys: tuple[bytes, ...]  # all keys that are settled with it
    letter: DeadLetter


class LetterPage(msgspec.Struct, frozen=True):
    """A page of the selected letters."""

    letters: tuple[OpenLetter, ...]
    total: int  # number of all selected letters
    after: int | None  # offset of the last letter, where the next page begins; None on the last page
    end: int  # letters of later failures have at least this offset


class OpenLetters:
    """Reads the open letters. Methods raise Unavailable when the log is away."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lines: dict[str, dict[bytes, LetterSummary]] = {}  # by entry
        self._entries: dict[bytes, str] = {}  # by key, because a tombstone has nothing but its key
        self._position = 0
        self._turn = asyncio.Lock()

    async def newest(self, wanted: LetterFilter, *, limit: int, below: int | None = None) -> LetterPage:
        """Return at most `limit` of the letters, newest first, with offsets below `below`; of an id, the newest."""
        async with self._caught_up() as reader:
            total, chosen = await asyncio.to_thread(self._newest, wanted, limit, below)
            return await self._read(reader, total, chosen, limit)

    async def oldest(self, wanted: LetterFilter, *, limit: int, above: int = -1, upto: int | None = None) -> LetterPage:
        """Return at most `limit` of the letters, oldest first, with offsets above `above` and below `upto`.

        Of an id, there is one for each submission that failed.
        """
        async with self._caught_up() as reader:
            total, chosen = await asyncio.to_thread(self._oldest, wanted, limit, above, upto)
            return await self._read(reader, total, chosen, limit)

    async def every(self, wanted: LetterFilter) -> AsyncGenerator[OpenLetter]:
        """Yield the letters, oldest first."""
        above: int | None = -1
        while above is not None:
            page = await self.oldest(wanted, limit=AT_ONCE, above=above)
            for each in page.letters:
                yield each
            above = page.after

    async def failed_in(self, *generations: str) -> int:
        """Return how many documents of all tenants failed in these generations' stages."""
        async with self._caught_up():
            newest = map(_newest_failure, self._lines.values())
            return len({line.id for line in newest if line.generation in generations})

    async def counts(self) -> Counter[tuple[str, str]]:
        """Return how many letters of all tenants are open, by stage and code."""
        async with self._caught_up():
            return await asyncio.to_thread(self._counts)

    async def tenants(self) -> list[str]:
        """Return the tenants that have open letters."""
        async with self._caught_up():
            return sorted({line.tenant for lines in self._lines.values() for line in lines.values()})

    @asynccontextmanager
    async def _caught_up(self) -> AsyncIterator[Reader]:
        """Yield a reader to one caller at a time, once everything written before is known."""
        async with self._turn, reading(self._log, _TP) as reader:
            _, end = await reader.bounds()
            if end < self._position:  # the topic was created again
                self._lines.clear()
                self._entries.clear()
                self._position = 0
            async for record in reader.between(self._position, end):
                self._see(record)
                self._position = record.offset + 1
            self._position = end
            yield reader

    def _see(self, record: Record) -> None:
        key = record.key or b""
        if record.value is None:
            self._settle(key)
            return
        try:
            head = decode(record.value, LetterFields)
        except Rejected as error:
            log.warning("dead_letter_unreadable", offset=record.offset, reason=error.sentence)
            return
        entry = _digest(entry_of(head))
        self._entries[key] = entry
        self._lines.setdefault(entry, {})[key] = LetterSummary(
            id=sys.intern(_id_of(head)),
            offset=record.offset,
            redrives=head.redrives,
            last_seen=head.last_seen,
            # Interned: a few different names occur in very many summaries.
            tenant=sys.intern(head.tenant or DEFAULT_TENANT),
            stage=sys.intern(head.stage),
            code=sys.intern(head.code),
            source=None if head.source is None else sys.intern(head.source),
            document_id=head.document_id,
            generation=None if head.generation is None else sys.intern(head.generation),
        )

    def _settle(self, key: bytes) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            del self._lines[entry][key]
            if not self._lines[entry]:
                del self._lines[entry]

    def _counts(self) -> Counter[tuple[str, str]]:
        failures = sorted(map(_newest_failure, self._lines.values()), key=attrgetter("offset"))
        return Counter((line.stage, line.code) for line in {line.id: line for line in failures}.values())

    def _newest(self, wanted: LetterFilter, limit: int, below: int | None) -> tuple[int, list[tuple[int, str]]]:
        newest: dict[str, tuple[LetterSummary, str]] = {}
        for entry, lines in self._lines.items():
            line = _newest_failure(lines)
            if line.id not in newest or line.offset > newest[line.id][0].offset:
                newest[line.id] = line, entry
        offsets = [(line.offset, entry) for line, entry in newest.values() if wanted.takes(line)]
        left = (each for each in offsets if below is None or each[0] < below)
        return len(offsets), heapq.nlargest(limit + 1, left)

    def _oldest(
        self, wanted: LetterFilter, limit: int, above: int, upto: int | None
    ) -> tuple[int, list[tuple[int, str]]]:
        failures = ((_newest_failure(lines), entry) for entry, lines in self._lines.items())
        matching = [(line.offset, entry) for line, entry in failures if wanted.takes(line)]
        offsets = [each for each in matching if upto is None or each[0] < upto]
        return len(offsets), heapq.nsmallest(limit + 1, (each for each in offsets if each[0] > above))

    async def _read(self, reader: Reader, total: int, chosen: list[tuple[int, str]], limit: int) -> LetterPage:
        more = len(chosen) > limit
        chosen = chosen[:limit]
        records = await reader.at(offset for offset, _ in chosen)
        letters = []
        for offset, entry in chosen:
            record = records.get(offset)
            if record is None:
                # Settled so long ago that compaction had removed the tombstone, too, before we read it.
                for key in [*self._lines[entry]]:
                    self._settle(key)
                continue
            lines = self._lines[entry]
            id_ = _newest_failure(lines).id
            letters.append(OpenLetter(id=id_, offset=offset, keys=tuple(lines), letter=_letter_of(record)))
        return LetterPage(tuple(letters), total, chosen[-1][0] if more else None, self._position)


def _id_of(letter: LetterFields) -> str:
    # A document that fails again with every run is one letter, not one more each time.
    if letter.document_id is None:
        return _digest(entry_of(letter))
    return _digest(f"{letter.stage}/{letter.tenant}/{letter.document_id}/{letter.generation}")


def _digest(name: str) -> str:
    return bytes_hash(name.encode())[:16]


def _letter_of(record: Record) -> DeadLetter:
    """Return the letter; of a damaged one the readable parts, so that it hides no other and can be dropped."""
    try:
        return decode(record.value, DeadLetter)
    except Rejected as error:
        head = decode(record.value, LetterFields)
        return DeadLetter(
            stage=head.stage,
            code="undecodable",
            sentence=f"the letter itself is damaged: {error.sentence}",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            time=record.timestamp,
            place=head.place,
            value=record.value,
            tenant=head.tenant,
            redrives=head.redrives,
            last_seen=head.last_seen,
        )


def _newest_failure(lines: Mapping[bytes, LetterSummary]) -> LetterSummary:
    """Return the summary of the newest failure: the one after most redrives, or the later one in an old format."""
    if len(lines) == 1:  # nearly always
        return next(iter(lines.values()))
    return max(lines.values(), key=lambda line: (line.redrives, line.offset))
