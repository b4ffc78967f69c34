"""The audit trail: who did what, on a topic of its own. docs/adr/0028-keys-audit-browsers.md"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

import msgspec
import structlog
from aiokafka import TopicPartition

from shared.contracts import AuditEntry, AuditRecord, AuditResult, decode, encode
from shared.errors import PipelineError, Rejected, Unavailable
from shared.log import Log, Publish
from shared.log.read import records
from shared.times import now_ms
from shared.topics import AUDIT

log = structlog.get_logger(__name__)

MOST_IDS: Final = 1000  # of one entry
EVERY_S: Final = 60.0  # between two entries for equal calls that are only counted
_KEY: Final = b"audit"
_MOST_KINDS: Final = 1000  # kinds of calls that are counted separately within `EVERY_S`
_MOST_WAITING: Final = 10_000  # entries; more than a few wait only while the log is away
_RECORD_BYTES: Final = 256 * 1024
_END_S: Final = 5.0


# Makes an entry about a call, with the reply's status, if there is one, and some documents.
EntryOf = Callable[[AuditResult, int | None, tuple[str, ...]], AuditEntry]


class AuditTrail:
    """Writes entries in batches: all entries that arrive while one record is being written share the next record."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._changed: dict[tuple[EntryOf, AuditResult], list[str]] = {}  # documents that have no entry yet
        self._waiting: list[AuditEntry] = []
        self._added = self._written = 0
        self._writing: asyncio.Task[None] | None = None  # what is there; an attempt at a time
        self._counted: Counter[AuditEntry] = Counter()  # by the kind of call, since `EVERY_S` began

    def change(self, entry: EntryOf, document_id: str, result: AuditResult) -> None:
        """Note that a call has changed a document. It is written at once, without waiting for the call's end."""
        self._changed.setdefault((entry, result), []).append(document_id)
        self._note()

    def add(self, entry: AuditEntry) -> None:
        """Write the entry soon; `written` waits for it."""
        if len(self._waiting) >= _MOST_WAITING:
            log.error("audit_entry_lost", action=entry.action, result=entry.result)
            return
        self._collect()
        self._waiting.append(entry)
        self._note()

    def count(self, entry: AuditEntry) -> None:
        """Write the first entry of each kind at once; of equal ones within `EVERY_S`, write only their number.

        This is for calls that change nothing: nobody can fill the log with them.
        """
        kind = msgspec.structs.replace(entry, time=0, request="")
        if kind not in self._counted and len(self._counted) >= _MOST_KINDS:
            kind = AuditEntry(time=0, action="other", result=entry.result)
        self._counted[kind] += 1
        if self._counted[kind] == 1:
            self.add(entry)

    async def written(self) -> None:
        """Return when the log has all that was noted before.

        Raises:
            Unavailable: the log is away; the entries are kept and tried again.
        """
        upto = self._added
        while self._written < upto:
            # Whoever waits shares it, or while the log is away each would wait for its own attempt after all others'.
            await asyncio.shield(self._attempt())

    async def end(self) -> None:
        """Write what is left, unless the log is away; then no attempt goes on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self.sum_up()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def sum_up(self) -> None:
        """Write the counts, and what couldn't be written before. Call it every `EVERY_S`."""
        counted, self._counted = self._counted, Counter()
        for kind, count in counted.items():
            if count > 1:
                self.add(msgspec.structs.replace(kind, time=now_ms(), count=count - 1))
        with suppress(Unavailable, Rejected):
            await self.written()

    def _note(self) -> None:
        self._added += 1
        self._attempt()

    def _attempt(self) -> asyncio.Task[None]:
        """Return the attempt that is under way, or a new one."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
            self._writing.add_done_callback(self._ended)
        return self._writing

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        if attempt.cancelled():
            return
        if (error := attempt.exception()) is None:
            if self._written < self._added:  # noted meanwhile
                self._attempt()
        else:
            bug = None if isinstance(error, PipelineError) else error
            log.warning("audit_entries_wait", count=len(self._waiting), reason=str(error), exc_info=bug)

    def _collect(self) -> None:
        """Turn the changes noted so far into entries, ahead of entries that are added later."""
        changed, self._changed = self._changed, {}
        self._waiting += [
            entry(result, None, tuple(ids[start : start + MOST_IDS]))
            for (entry, result), ids in changed.items()
            for start in range(0, len(ids), MOST_IDS)
        ]

    async def _write(self) -> None:
        upto = self._added
        self._collect()
        left = len(self._waiting)
        while left > 0:  # what is added meanwhile is the next attempt's
            value, taken = _record(self._waiting)
            # Entries stay until the log confirms them, so an entry may be there twice but is never missing.
            await self._publish(AUDIT, value, key=_KEY)
            del self._waiting[:taken]
            left -= taken
        self._written = upto


def _record(entries: list[AuditEntry]) -> tuple[bytes, int]:
    """Return a record with the first entries, and how many they are."""
    taken, size = 0, 0
    for entry in entries:
        size += len(encode(entry)) + 1
        if taken and size > _RECORD_BYTES:
            break
        taken += 1
    return encode(AuditRecord(entries=tuple(entries[:taken]))), taken


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are wanted; None: any."""

    tenant: str | None = None
    key: str | None = None
    action: str | None = None

    def takes(self, entry: AuditEntry) -> bool:
        """Return whether the entry is wanted."""
        return (
            self.tenant in (None, entry.tenant)
            and self.key in (None, entry.key)
            and self.action in (None, entry.action)
        )


class AuditPage(msgspec.Struct, frozen=True):
    """Entries in the order in which they were written, and the offset of the record after them."""

    entries: list[AuditEntry]
    after: int
    end: bool  # whether nothing follows yet


async def audit_page(
    log_: Log,
    wanted: AuditFilter,
    *,
    since: int | None = None,
    after: int | None = None,
    limit: int,
    most: int = 10_000,
) -> AuditPage:
    """Return the wanted entries `after` an offset, else since a time (ms since 1970), else all.

    A page ends with a whole record, so it may have more than `limit` entries; at most `most` records are read for it.

    Raises:
        Unavailable: the log is away.
    """
    tp = TopicPartition(AUDIT, 0)
    end = (await log_.end_offsets(AUDIT))[tp]
    start = (await log_.offsets_since(AUDIT, since or 0))[tp] if after is None else after
    upto, entries = min(end, start + most), list[AuditEntry]()
    async with aclosing(records(log_, {tp: (start, upto)})) as there:
        async for record in there:
            start = record.offset + 1
            try:
                found = decode(record.value, AuditRecord).entries
            except Rejected as error:
                log.warning("record_passed", topic=AUDIT, offset=record.offset, reason=error.sentence)
                continue
            entries += [entry for entry in found if wanted.takes(entry)]
            if len(entries) >= limit:
                return AuditPage(entries, start, end=start >= end)
    return AuditPage(entries, max(start, upto), end=upto >= end)
