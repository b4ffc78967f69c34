"""Watches the store for losses: folds a lost ledger from the log, and opens the gate once a lost index is full again.

The points are made by the stages of the generation that serves in the lost one's place. Every ingest worker does this:
all steps can be repeated, and what one leaves unfinished another one finishes.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from aiokafka import TopicPartition

from services.ingest_worker.history import FoldedVersions, History
from shared.contracts import DocumentExtracted, DocumentVersion, LetterHead, decode
from shared.errors import Rejected, Unavailable
from shared.log import Log
from shared.log.groups import Barrier
from shared.log.headers import check_intact
from shared.log.publish import partition_of
from shared.log.read import Span, in_batches, records
from shared.settings import ConfigurationError
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import Registered, change, marked_built, registry_of
from shared.state.index import Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Entry, Ledger
from shared.state.pairing import extracted_ends
from shared.state.rebuild_gate import CODE, Rebuild, RebuildGate, last_rebuild, write_rebuild
from shared.store import Store
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, readers

log = structlog.get_logger(__name__)

BATCH: Final = 64  # documents written concurrently
LOOK_S: Final = 1.0


@dataclass(kw_only=True)
class Rebuilder:
    """Watches the store of a log."""

    log: Log
    store: Store
    gate: RebuildGate
    generations: GenerationWatch
    restore: Callable[[], Awaitable[None]]  # notes a loss, and makes what replaces it
    alone: bool  # whether no other process works on the store

    def __post_init__(self) -> None:
        self._barrier: Barrier | None = None

    async def look(self) -> None:
        """Look for a loss or an unfinished rebuild. Raises as `step`; another store in place keeps the gate shut."""
        try:
            await self.step()
        except ConfigurationError as error:
            self.gate.lost = str(error)
            raise

    async def step(self) -> None:
        """Take the next step towards a complete index.

        Raises:
            ConfigurationError: another store is in the lost one's place. Unavailable: a part is away.
        """
        await self.gate.look()
        known = await last_rebuild(self.store)
        if self.gate.lost or await self._lost(known):
            await self.restore()
            known = await last_rebuild(self.store)
        if known is None or (known.phase == "done" and not self._fills()):
            return
        registered = (await self.generations.look()).current
        if known.phase == "ledger":
            await LedgerFold(self.log, self.store, registered).run()
            await self.store.flush()
            log.warning("ledger_rebuilt")
            known = await self._save(known, phase="points")
        if registered.fills:
            if left := await self._left(registered):
                if left > 0 and not 0 < known.left <= left:  # each worker counts from its own start
                    await self._save(known, left=left)
                return
            await change(self.store, partial(marked_built, id_=registered.id, now=int(time.time() * 1000)))
        await self._save(known, phase="done")
        log.warning("index_rebuilt", generation=registered.id)

    def _fills(self) -> bool:
        """Return whether the serving generation isn't marked as built, as in an older copy of the registry."""
        return self.generations.registry is not None and self.generations.registry.current.fills

    async def _lost(self, known: Rebuild | None) -> bool:
        registry, there = await registry_of(self.store), await self.store.collections()
        if registry is None or LEDGER not in there:
            return True
        names = registry.current.generation.heads, registry.current.generation.chunks
        return not set(names) <= set(there) or (known is not None and known.takes(*names))

    async def _left(self, registered: Registered) -> int:
        """Return how many records the stages have yet to read of what had ended before every process knew of them."""
        if self._barrier is None or self._barrier.generation != registered.id:
            # Until then, a process may still end versions that only the lost generation has.
            if not self.alone and not self.generations.everybody_knows(registered.id):
                return -1
            self._barrier = Barrier(generation=registered.id, ends=await extracted_ends(self.log))
        return await self._barrier.left(self.log)

    async def _save(self, known: Rebuild, **changes: Any) -> Rebuild:
        """Return the stored rebuild: `known` with the changes, or as another worker has changed it meanwhile.

        Raises:
            Unavailable: the store is away, or was lost again.
        """
        standing = await write_rebuild(self.store, msgspec.structs.replace(known, **changes), known=known)
        if standing is None or standing.number != known.number:
            raise Unavailable("the index was lost again", CODE)
        await self.gate.look()
        return standing


@dataclass
class LedgerFold:
    """Makes ledger entries of what the log says. Several may run at once, and after another one's end."""

    log: Log
    store: Store
    registered: Registered  # the generation that serves

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.store)  # not the shared one, which waits for this
        self._index = Index(self.store, self.registered.generation)

    async def run(self) -> None:
        """Write all entries. Raises Unavailable when the log or the store is away."""
        history = History(self.registered.id, before=self.registered.before)
        # In this order: once the first stage has committed a submission, its event is on the log.
        committed = await self.log.committed(readers(self.registered.id)[SUBMITTED], SUBMITTED)
        await self._read(history, {tp: (0, end or 0) for tp, end in committed.items()})
        seen: dict[TopicPartition, int] = {}
        while True:
            ends = await self.log.end_offsets(EXTRACTED)
            # A worker that was running when the store was lost may publish one more version.
            if all(seen.get(tp) == end for tp, end in ends.items()):
                return
            await self._read(history, {tp: (0, end) for tp, end in (await self.log.end_offsets(DEAD_LETTERS)).items()})
            for tp, end in sorted(ends.items()):
                await self._fold(tp, (seen.get(tp, 0), end), history, len(ends))
                seen[tp] = end

    async def _read(self, history: History, spans: Mapping[TopicPartition, Span]) -> None:
        async for record in records(self.log, spans):
            history.see(record)

    async def _fold(self, tp: TopicPartition, span: Span, history: History, partitions: int) -> None:
        """Write the entries of a partition's documents; no more than these are in memory."""
        history.versions = FoldedVersions(history.letters)
        await self._read(history, {tp: span})
        failed, offsets = history.letters.of_submissions(), history.versions.newest()
        if span[0] == 0:
            names = {*history.newest, *failed}
            here = {each for each in names if partition_of(each.encode(), partitions) == tp.partition}
            bare = history.bare(here, failed)
            for at in range(0, len(bare), BATCH):
                await self._write(bare[at : at + BATCH])
        async with aclosing(in_batches(self._versions(tp, offsets), BATCH)) as batches:
            async for batch in batches:
                await self._write(await self._entries(batch, history, failed))

    async def _versions(self, tp: TopicPartition, offsets: Mapping[int, str]) -> AsyncGenerator[DocumentVersion]:
        """Yield the versions at these offsets, each of a document, that can be read."""
        wanted = (min(offsets), max(offsets) + 1) if offsets else (0, 0)
        async with aclosing(records(self.log, {tp: wanted})) as found:
            async for record in found:
                if record.offset in offsets and record.value is not None:
                    try:
                        check_intact(record)
                        yield decode(record.value, DocumentExtracted).document
                    except Rejected as error:
                        log.warning("version_unreadable", document_id=offsets[record.offset], reason=error.sentence)

    async def _entries(
        self, batch: Sequence[DocumentVersion], history: History, failed: Mapping[str, LetterHead]
    ) -> list[Entry]:
        names = [document.document_id for document in batch]
        heads, counts = await asyncio.gather(self._index.heads(names), self._index.point_counts(names))
        whole = {each: head for each, head in heads.items() if head.deleted or counts.get(each, 0) == head.chunk_count}
        return [
            history.entry(document, failed=failed.get(name), head=whole.get(name))
            for name, document in zip(names, batch, strict=True)
        ]

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
