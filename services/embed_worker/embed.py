"""The last stage: embeds a chunked version where needed, and makes it answer."""

from functools import partial

import msgspec

from services.embed_worker.apply import Apply
from shared.blobs import Blobs
from shared.claim_check import messages_of
from shared.contracts import Chunk, DocumentChunked, decode
from shared.errors import Rejected
from shared.log import Record
from shared.log.dead_letters import RecordOwner, owner_of
from shared.log.headers import redrives_of
from shared.runtime.memory_budget import MemoryBudget
from shared.state.statuses import Statuses


class Embed:
    """Handles records of one generation's chunk topic. Every call is idempotent."""

    def __init__(self, *, apply: Apply, blobs: Blobs, statuses: Statuses, room: MemoryBudget) -> None:
        self._apply = apply
        self._blobs = blobs
        self._statuses = statuses
        self._room = room

    async def __call__(self, record: Record) -> None:
        """Apply one version.

        Raises:
            Rejected: a chunk can't be embedded, or the chunks' blob is missing or altered.
            Unavailable: a part is away; call again.
        """
        if record.value is None:  # erased from the log; the erasing version deletes the points
            return
        event = decode(record.value, DocumentChunked)
        seen = await self._statuses.seen(event.document)
        if not redrives_of(record) and await self._statuses.has_failed(event.document, seen.entry):
            return  # its dead letter is there, and its body may be gone; a redrive tries it again
        async with self._room.taken(event.blob.size if event.blob else 0):
            # Chunks are loaded after the fence: a replay of an erased document, whose chunks are gone, must not fail.
            document = msgspec.structs.replace(event.document, chunked_at=record.timestamp)
            await self._apply(document, partial(self._chunks, event), redrives_of(record), seen)

    @staticmethod
    def owner(record: Record) -> RecordOwner | None:
        """Return the record's document, None if the record can't be decoded."""
        try:
            document = decode(record.value, DocumentChunked).document
        except Rejected:
            return None
        return owner_of(document)

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Withdraw the version and write that it failed, unless it answers already."""
        try:
            event = decode(record.value, DocumentChunked)
        except Rejected:
            return
        await self._apply.fail(event.document, error=sentence, code=code, attempt=redrives_of(record))

    async def _chunks(self, event: DocumentChunked) -> tuple[Chunk, ...]:
        if event.blob is None:
            return event.chunks
        data = await self._blobs.get(event.document.tenant, event.document.document_id, event.blob)
        return await messages_of(data, Chunk)
