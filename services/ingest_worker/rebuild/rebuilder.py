"""Rebuilds a lost index: the ledger from the log, then the points by sending versions through the stages again.

A version is restored by publishing its record of documents.extracted again, so the usual stages apply it, and what the
index still holds of it is kept. One process rebuilds at a time; if it ends, another one continues.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
import structlog
from aiokafka import TopicPartition

from services.ingest_worker.rebuild.history import (
    FoldedLetters,
    FoldedSubmissions,
    FoldedVersions,
    NewestVersion,
    entry_of,
    entry_without_version,
)
from shared.contracts import DocumentExtracted, decode
from shared.errors import Rejected, Unavailable
from shared.log import Log, Publish, Record
from shared.log.headers import check_intact
from shared.log.publish import partition_of
from shared.log.read import records
from shared.settings import ConfigurationError
from shared.state.index import Head, Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Entry, Ledger
from shared.state.rebuild_gate import Rebuild, RebuildGate, last_rebuild, write_rebuild
from shared.store import Store
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, readers

log = structlog.get_logger(__name__)

BATCH: Final = 64  # documents written or published concurrently
STALE_S: Final = 30.0  # a rebuild without progress for this long has lost its process
SAVE_S: Final = 2.0
TELL_S: Final = 10.0
LOOK_S: Final = 1.0
_WAIT_S: Final = 0.25


class _TakenOver(Exception):  # noqa: N818 - reads as what happened
    """Another process has taken over the rebuild."""


class _About(NamedTuple):
    """What the log knows about documents besides their versions, and the partitions of the versions."""

    letters: FoldedLetters
    submissions: FoldedSubmissions
    partition: Callable[[str], int]


class Rebuilder:
    """Watches the store of one generation, and rebuilds lost collections."""

    def __init__(
        self,
        *,
        log: Log,
        store: Store,
        index: Index,
        gate: RebuildGate,
        publish: Publish,
        restore: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the parts, and `restore`, which records a loss and creates the lost collections, empty."""
        self._log = log
        self._store = store
        self._index = index
        self._ledger = Ledger(store)  # not the shared one, which waits for the rebuild
        self._gate = gate
        self._publish = publish
        self._restore = restore
        self._clock = clock
        self._owner = uuid4().hex
        self._mine: Rebuild | None = None
        self._seen: tuple[int, float] = (0, 0.0)  # revision of another process's rebuild, and since when
        self._saved = self._told = self._began = 0.0
        self._failure: str | None = None

    async def watch(self) -> None:
        """Look for a loss or an unfinished rebuild, until cancelled."""
        while True:
            try:
                await self.step()
                self._failure = None
            except (Unavailable, ConfigurationError) as error:
                if isinstance(error, ConfigurationError):
                    self._gate.lost = str(error)
                if str(error) != self._failure:
                    log.warning("index_rebuild_waits", reason=str(error))
                self._failure = str(error)
            await asyncio.sleep(LOOK_S)

    async def step(self) -> None:
        """Rebuild what is lost, if anything is and no other process does it.

        Raises:
            ConfigurationError: another store is in the lost one's place. Unavailable: a part is away.
        """
        await self._gate.look()
        generation = self._index.generation
        there = await self._store.collections()
        if self._gate.lost or not {LEDGER, generation.heads, generation.chunks} <= set(there):
            await self._restore()
        known = await last_rebuild(self._store)
        if known is None or known.phase == "done" or not await self._claimed(known):
            return
        try:
            await self._rebuild()
        except _TakenOver:
            log.info("index_rebuild_taken_over")
        finally:
            self._mine = None

    async def _claimed(self, known: Rebuild) -> bool:
        if known.owner not in ("", self._owner):
            rev, since = self._seen
            if rev != known.rev:
                self._seen = known.rev, self._clock()
                return False
            if self._clock() - since < STALE_S:
                return False
        wanted = msgspec.structs.replace(known, owner=self._owner)
        self._mine = await write_rebuild(self._store, wanted, known=known)
        self._saved = self._told = self._began = self._clock()
        return self._mine is not None and self._mine.owner == self._owner

    async def _rebuild(self) -> None:
        mine = self._rebuild_now()
        log.warning("index_rebuild_begun", lost=mine.lost, phase=mine.phase)
        if mine.phase == "ledger":
            count = await self._rebuild_ledger()
            await self._store.flush()
            await self._save(phase="points", documents=0, done=0, rate=0.0)
            log.warning("ledger_rebuilt", documents=count)
        count = await self._rebuild_points()
        await self._caught_up(count)
        await self._save(phase="done", owner="", done=self._rebuild_now().documents)
        log.warning("index_rebuilt", documents=self._rebuild_now().documents, published=count)

    # The ledger

    async def _rebuild_ledger(self) -> int:
        """Rebuild the ledger; return how many entries were written."""
        # In this order: once the first stage has committed a submission, its event is on the log.
        committed = await self._log.committed(readers(self._index.generation.id)[SUBMITTED], SUBMITTED)
        submissions = FoldedSubmissions()
        for tp, end in committed.items():
            async for record in self._records(tp, 0, end or 0):
                submissions.see(record)
        done, seen = 0, dict[TopicPartition, int]()
        while True:
            ends = await self._log.end_offsets(EXTRACTED)
            # A worker that was running when the store was lost may publish one more version.
            if all(seen.get(tp) == end for tp, end in ends.items()):
                return done
            letters = await self._letters()
            for tp, end in sorted(ends.items()):
                about = _About(letters, submissions, partial(_partition, count=len(ends)))
                done += await self._rebuild_partition(tp, seen.get(tp, 0), end, about, done)
                seen[tp] = end

    async def _rebuild_partition(self, tp: TopicPartition, start: int, end: int, about: "_About", done: int) -> int:
        letters, submissions = about.letters, about.submissions
        versions = FoldedVersions(letters)
        async for record in self._records(tp, start, end):
            versions.see(record)
        failed = letters.of_submissions()
        offsets = versions.newest()
        bare = [
            entry
            for name in ({*submissions.newest, *failed} - versions.documents.keys() if start == 0 else ())
            if about.partition(name) == tp.partition
            and (entry := entry_without_version(name, submissions.newest.get(name), failed.get(name))) is not None
        ]
        known = self._rebuild_now().documents + len(offsets) + len(bare)
        await self._save(documents=known)
        batch: list[tuple[Record, DocumentExtracted]] = []
        total = 0

        async def write() -> None:
            nonlocal total
            heads = await self._whole([event.document.document_id for _, event in batch])
            entries = []
            for _, event in batch:
                document = event.document
                name = document.document_id
                submitted = submissions.newest.get(name)
                older = [version for version in sorted(versions.documents[name]) if version < document.version]
                entries.append(
                    entry_of(
                        NewestVersion(
                            document,
                            versions.failure(name, document.version),
                            published=(*older, document.version),
                            failed=tuple(each for each in older if versions.failure(name, each) is not None),
                        ),
                        submitted=submitted,
                        failed=failed.get(name),
                        settled=submitted is not None and letters.settled(submitted.place),
                        head=heads.get(name),
                    )
                )
            batch.clear()
            await self._write(entries)
            total += len(entries)
            await self._save_progress(done + total)

        async for record in self._at(tp, offsets):
            try:
                check_intact(record)
                batch.append((record, decode(record.value, DocumentExtracted)))
            except Rejected as error:
                log.warning("version_unreadable", document_id=offsets[record.offset], reason=error.sentence)
            if len(batch) == BATCH:
                await write()
        await write()
        for at in range(0, len(bare), BATCH):
            await self._write(bare[at : at + BATCH])
        return total + len(bare)

    async def _write(self, entries: Iterable[Entry]) -> None:
        await asyncio.gather(*(self._put(entry) for entry in entries))

    async def _put(self, wanted: Entry) -> None:
        def transition(seen: Entry | None) -> Entry | None:
            # A door, or a worker that was running when the store was lost, may have written the entry meanwhile.
            if seen is not None and seen.accepted.version >= wanted.accepted.version:
                return None
            if seen is None:
                return wanted
            published = tuple(sorted({*seen.published, *wanted.published}))
            return msgspec.structs.replace(wanted, published=published)

        await self._ledger.update(wanted.document_id, transition)

    # The points

    async def _rebuild_points(self) -> int:
        """Rebuild the points; return how many versions were published again."""
        ends = await self._log.end_offsets(EXTRACTED)
        letters = await self._letters()
        chunked = await self._log.committed(readers(self._index.generation.id)[EXTRACTED], EXTRACTED)
        published = done = 0
        for tp, end in sorted(ends.items()):
            versions = FoldedVersions(letters)
            async for record in self._records(tp, 0, end):
                versions.see(record)
            # The second stage will read the records that it hasn't read yet without us. Where a rebuild goes on, they
            # are also those that were published before.
            unread = chunked.get(tp) or 0
            offsets = {at: name for at, name in versions.answering().items() if at < unread}
            await self._save(documents=self._rebuild_now().documents + len(offsets))
            batch: list[Record] = []
            async for record in self._at(tp, offsets):
                done += 1
                batch.append(record)
                if len(batch) == BATCH:
                    published += await self._publish_missing(batch, offsets)
                    await self._save_progress(done - published)
                    batch = []
            published += await self._publish_missing(batch, offsets)
            await self._save_progress(done - published)
        return published

    async def _publish_missing(self, batch: list[Record], offsets: dict[int, str]) -> int:
        """Publish again those versions that the index lacks in whole or in part; return how many."""
        names = [offsets[record.offset] for record in batch]
        heads, entries = await asyncio.gather(self._whole(names), self._ledger.entries(names))
        sending = []
        for name, record in zip(names, batch, strict=True):
            head, entry = heads.get(name), entries.get(name)
            version = int((record.key or b"").rpartition(b"/")[2])
            whole = head is not None and head.version >= version
            if whole or (entry is not None and entry.erased and entry.accepted.version > version):
                continue
            headers = {key: value.decode(errors="replace") for key, value in record.headers if value is not None}
            key = record.key or b""
            sending.append(self._publish(EXTRACTED, record.value, key=key, route=name.encode(), headers=headers))
        await asyncio.gather(*sending)
        return len(sending)

    async def _caught_up(self, published: int) -> None:
        """Return when the second and the third stage have processed all that is on the log now."""
        for topic, group in list(readers(self._index.generation.id).items())[1:]:
            ends = await self._log.end_offsets(topic)
            while True:
                committed = await self._log.committed(group, topic)
                behind = sum(max(0, end - (committed.get(tp) or 0)) for tp, end in ends.items())
                later = published if topic == EXTRACTED else 0
                documents = self._rebuild_now().documents
                await self._save_progress(max(0, documents - max(behind, min(later, documents))))
                if not behind:
                    break
                await asyncio.sleep(_WAIT_S)

    # Both

    async def _whole(self, names: list[str]) -> dict[str, Head]:
        """Return the heads of those documents whose head and points are complete."""
        if not names:
            return {}
        heads, counts = await asyncio.gather(self._index.heads(names), self._index.point_counts(names))
        return {name: head for name, head in heads.items() if head.deleted or counts.get(name, 0) == head.chunk_count}

    async def _letters(self) -> FoldedLetters:
        letters = FoldedLetters(self._index.generation.id)
        tp = TopicPartition(DEAD_LETTERS, 0)
        async for record in self._records(tp, 0, (await self._log.end_offsets(DEAD_LETTERS))[tp]):
            letters.see(record)
        return letters

    async def _records(self, tp: TopicPartition, start: int, end: int) -> AsyncGenerator[Record]:
        """Yield the records left between two offsets; reading also shows that the rebuild is alive."""
        async with aclosing(records(self._log, {tp: (start, end)})) as found:
            async for record in found:
                yield record
                if self._clock() - self._saved > SAVE_S:
                    await self._save()

    async def _at(self, tp: TopicPartition, offsets: dict[int, str]) -> AsyncGenerator[Record]:
        if not offsets:
            return
        async with aclosing(self._records(tp, min(offsets), max(offsets) + 1)) as found:
            async for record in found:
                if record.offset in offsets and record.value is not None:
                    yield record

    def _rebuild_now(self) -> Rebuild:
        assert self._mine is not None
        return self._mine

    async def _save_progress(self, done: int) -> None:
        if self._clock() - self._saved < SAVE_S:
            self._mine = msgspec.structs.replace(self._rebuild_now(), done=done)
            return
        await self._save(done=done)

    async def _save(self, **changes: Any) -> None:
        """Record the rebuild's progress. Raises _TakenOver if another process has taken it over."""
        mine = msgspec.structs.replace(self._rebuild_now(), **changes)
        now = self._clock()
        mine = msgspec.structs.replace(mine, rate=round(mine.done / max(now - self._began, 0.1), 1))
        if now - self._told > TELL_S:
            self._told = now
            log.warning("index_rebuild_progress", phase=mine.phase, done=mine.done, documents=mine.documents)
        standing = await write_rebuild(self._store, mine, known=self._rebuild_now())
        if standing is None or standing.rev != mine.rev + 1 or standing.owner != mine.owner:
            raise _TakenOver
        self._mine, self._saved = standing, now
        await self._gate.look()


def _partition(name: str, count: int) -> int:
    return partition_of(name.encode(), count)
