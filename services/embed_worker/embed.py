"""The last stage: embeds a chunked version where needed, and makes it answer.

It executes the steps of `version_switch.advance`: points, head, older points, status.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import msgspec

from services.embed_worker.points import chunk_points, head_of, sparse_text
from services.embed_worker.vectors import Vectors
from services.embed_worker.version_switch import SwitchStep, advance
from shared import tracing
from shared.blobs import Blobs
from shared.claim_check import messages_of
from shared.contracts import Chunk, DocumentChunked, DocumentVersion, decode
from shared.errors import Rejected
from shared.ids import point_id
from shared.log import Publish, Record
from shared.log.consume import stepped_aside
from shared.log.dead_letters import owner_of
from shared.log.headers import redrives_of
from shared.runtime.body_budget import MemoryBudget
from shared.state.index import Head, Index
from shared.state.ledger import Entry, published_below
from shared.state.statuses import Statuses
from shared.state.version_deletion import tombstone
from shared.store.bm25 import Bm25

Load = Callable[[], Awaitable[tuple[Chunk, ...]]]  # returns a version's chunks
SLICE = 64  # chunks embedded and written at a time; after a crash written slices aren't embedded again

FEW = 16  # chunks whose points take a millisecond; a hand-over to a thread takes a fifth of that


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Handles records of one generation's chunk topic. Every call is idempotent."""

    index: Index
    vectors: Vectors
    bm25: Bm25
    publish: Publish
    statuses: Statuses
    blobs: Blobs
    room: MemoryBudget = field(default_factory=MemoryBudget)

    async def __call__(self, record: Record) -> None:
        """Apply one version.

        Raises:
            Rejected: a chunk can't be embedded, or the chunks' blob is missing or altered.
            Unavailable: a part is away; call again.
        """
        if record.value is None:  # erased from the log; the erasing version deletes the points
            return
        event = decode(record.value, DocumentChunked)
        tracing.about(event.document.tenant, event.document.document_id)
        entry = await self.statuses.entry(event.document)
        if not redrives_of(record) and await self.statuses.has_failed(event.document, entry):
            return  # its dead letter is there, and its body may be gone; a redrive tries it again
        # A document of many chunks also reads and writes much, and holds up no smaller one meanwhile.
        aside = stepped_aside("many chunks are embedded") if event.blob else nullcontext()
        with aside:
            async with self.room.taken(event.blob.size if event.blob else 0, event.document.tenant):
                # Chunks are loaded after the fence: a replay of an erased document, whose chunks are gone, must not
                # fail.
                document = msgspec.structs.replace(event.document, chunked_at=record.timestamp)
                await self.apply(document, partial(self._chunks, event), redrives_of(record))

    owner = staticmethod(partial(owner_of, kind=DocumentChunked))

    async def _chunks(self, event: DocumentChunked) -> tuple[Chunk, ...]:
        if event.blob is None:
            return event.chunks
        data = await self.blobs.get(event.document.tenant, event.document.document_id, event.blob)
        return await messages_of(data, Chunk)

    async def apply(self, document: DocumentVersion, load: Load, attempt: int = 0) -> None:
        """Make the version answer, unless a newer one does; then `load`, which returns its chunks, isn't called.

        `attempt` is the number of redrives of the version.

        Raises:
            Rejected: another worker has withdrawn the version, and hasn't written its failure yet.
            Unavailable: a part is away; call again.
        """
        standing: Head | None = None
        entry: Entry | None = None
        step, head, older, count = SwitchStep.FENCE, None, set[int](), 0
        while step is not SwitchStep.END:
            match step:
                case SwitchStep.FENCE:
                    standing = await self.index.head(document.document_id)
                    head = standing.version if standing else None
                    if standing and standing.version < document.version:
                        older.add(standing.version)
                case SwitchStep.PUT:
                    count = await self._put(document, standing, load, attempt)
                case SwitchStep.SWITCH:
                    first = standing is None
                    head = (await self.index.switch(head_of(document, count), attempt, first=first)).version
                case SwitchStep.FORGET:
                    entry = await self._forget(document, older)
                case SwitchStep.DELETE if older:  # most documents are new, and a look-up is cheaper than a delete
                    await self.index.delete_below(document.document_id, document.version)
                case SwitchStep.FINISH:
                    await self.statuses.applied(document, count, older, entry)
                case SwitchStep.WITHDRAW | SwitchStep.REFUSED:
                    await self._take_back(document, attempt, overtaken=step is SwitchStep.WITHDRAW)
            step = advance(step, document.version, head)

    async def _put(self, document: DocumentVersion, standing: Head | None, load: Load, attempt: int) -> int:
        """Write the missing points and return how many the version has."""
        # A complete version is kept: another chunker may have cut it, and both kinds must not mix.
        if standing is not None and standing.version == document.version:
            there = await self.index.version_points(document.document_id, document.version)
            if there == standing.chunk_count:
                return there
        chunks, found = await load(), False
        for start in range(0, len(chunks), SLICE):
            slice_ = slice(start, start + SLICE)
            part = chunks[slice_]
            ids = [point_id(document.document_id, document.version, chunk.order) for chunk in part]
            # After a crash nothing is embedded twice. Points with another text are of an undecided reading (ADR 0006).
            present = await self.index.present(ids, attempt)
            found = found or bool(present)
            if present == {id_: chunk.hash for id_, chunk in zip(ids, part, strict=True)}:
                continue
            sparse = await self.bm25.documents([sparse_text(document, chunk) for chunk in part])
            async with self.vectors.of(document.tenant, part) as dense:
                precision = self.index.generation.vectors
                make = partial(chunk_points, document, chunks, slice_, dense, sparse, precision=precision)
                # Metadata of prepared chunks may take 50 ms, and 64 vectors some: those of a usual document don't.
                few = len(part) <= FEW and not any(chunk.metadata for chunk in part)
                await self.index.put(make() if few else await asyncio.to_thread(make), attempt)
        if found and await self.index.version_points(document.document_id, document.version) > len(chunks):
            await self.index.delete_from(document.document_id, document.version, len(chunks))
        return len(chunks)

    async def _forget(self, document: DocumentVersion, older: set[int]) -> Entry | None:
        """Remove from the truth the versions in `older`, and those that the entry lists, which are added; return it."""
        entry = await self.statuses.entry(document)
        older |= published_below(entry, document.version)
        for version in sorted(older):
            await tombstone(self.publish, document.document_id, version)
        return entry

    async def _take_back(self, document: DocumentVersion, attempt: int, *, overtaken: bool) -> None:
        """Delete the points of a version that a newer one has overtaken, or that another worker has withdrawn."""
        if overtaken:
            await self.index.delete_version(document.document_id, document.version)
            await tombstone(self.publish, document.document_id, document.version)
            return
        # A failed version stays in the truth, so that it can be redriven.
        if not await self.statuses.ended(document):
            raise Rejected(f"version {document.version} was withdrawn by another worker", "withdrawn")
        await self.index.delete_attempts(document.document_id, document.version, attempt)

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Withdraw the version and write that it failed, unless it answers completely already."""
        try:
            document = decode(record.value, DocumentChunked).document
        except Rejected:
            return
        answering = await self.withdraw(document, redrives_of(record))
        await self.statuses.failed(document, answering, error=sentence, code=code)
        await self.statuses.forget_surplus(document, self.index)

    async def withdraw(self, document: DocumentVersion, attempt: int = 0) -> Head | None:
        """Delete the points of a version that failed, unless it answers completely already; then return its head.

        The head is marked first: another worker that has written the points, too, can't switch to them any more.
        Points of a later redrive stay.
        """
        head = await self.index.withdraw(head_of(document, 0), attempt)
        if head.version != document.version:
            await self.index.delete_attempts(document.document_id, document.version, attempt)
            # Once the failure is written, nobody looks for the points again. So their deletion must be on disk before
            # it.
            await self.index.flush()
            return None
        return await self.index.answering(document.document_id, document.version)
