"""The last stage: embeds a chunked version where needed, and makes it answer."""

from dataclasses import dataclass
from functools import partial

import msgspec

from services.embed_worker.apply import Apply
from shared import tracing
from shared.blobs import Blobs
from shared.claim_check import messages_of
from shared.contracts import Chunk, DocumentChunked, decode
from shared.errors import Rejected
from shared.log import Record
from shared.log.dead_letters import owner_of
from shared.log.headers import redrives_of
from shared.runtime.body_budget import MemoryBudget
from shared.state.statuses import Statuses


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Handles records of one generation's chunk topic. Every call is idempotent."""

    apply: Apply
    blobs: Blobs
    statuses: Statuses
    room: MemoryBudget

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
        seen = await self.statuses.seen(event.document)
        if not redrives_of(record) and await self.statuses.has_failed(event.document, seen.entry):
            return  # its dead letter is there, and its body may be gone; a redrive tries it again
        async with self.room.taken(event.blob.size if event.blob else 0):
            # Chunks are loaded after the fence: a replay of an erased document, whose chunks are gone, must not fail.
            document = msgspec.structs.replace(event.document, chunked_at=record.timestamp)
            await self.apply(document, partial(self._chunks, event), redrives_of(record), seen)

    owner = staticmethod(partial(owner_of, kind=DocumentChunked))

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Withdraw the version and write that it failed, unless it answers already."""
        try:
            event = decode(record.value, DocumentChunked)
        except Rejected:
            return
        await self.apply.fail(event.document, error=sentence, code=code, attempt=redrives_of(record))

    async def _chunks(self, event: DocumentChunked) -> tuple[Chunk, ...]:
        if event.blob is None:
            return event.chunks
        data = await self.blobs.get(event.document.tenant, event.document.document_id, event.blob)
        return await messages_of(data, Chunk)
