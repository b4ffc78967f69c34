"""The second stage: splits a version's text into chunks and publishes them to its generation's topic.

A version that can never answer is removed from the truth instead (ADR 0007), so that erased text isn't published again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog

from services.ingest_worker.fill_records import PastTruth
from services.ingest_worker.parsers import ParserPool
from shared import tracing
from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.claim_check import json_of, prepared_chunks_of, text_of
from shared.contracts import Chunk, DocumentChunked, DocumentExtracted, DocumentVersion, decode, encode
from shared.embedder import TokenCounter
from shared.errors import Rejected
from shared.log import Publish, Record
from shared.log.dead_letters import owner_of
from shared.log.headers import redriven
from shared.runtime.body_budget import MemoryBudget
from shared.state.generations import Registered
from shared.state.index import Head, Index
from shared.state.ledger import Entry
from shared.state.statuses import Statuses
from shared.state.version_deletion import tombstone
from shared.topics import chunks_topic

log = structlog.get_logger(__name__)


def rate_limit_of(
    registered: Registered,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Record], Awaitable[None]] | None:
    """Return the wait for a record's turn, as set when the generation's build began; None if there is no limit.

    Records that came since then are never delayed. `pause` and `clock` (seconds) are for tests.
    """
    if registered.limit is None:
        return None
    every_s, ends, following = 1 / registered.limit, registered.ends, 0.0

    async def turn(record: Record) -> None:
        nonlocal following
        if record.offset < ends.get(str(record.partition), 0):
            at = max(following, now := clock())
            following = at + every_s
            if at > now:
                await pause(at - now)

    return turn


@dataclass(kw_only=True)
class Chunking:
    """Handles records of documents.extracted for one generation. Idempotent."""

    index: Index
    blobs: Blobs
    parsers: ParserPool
    tokens: TokenCounter
    publish: Publish
    statuses: Statuses
    room: MemoryBudget = field(default_factory=MemoryBudget)
    limit: Callable[[Record], Awaitable[None]] | None = None  # slows a build down
    past: PastTruth | None = None  # where the generation needs only some records

    owner = staticmethod(partial(owner_of, kind=DocumentExtracted))

    def __post_init__(self) -> None:
        self._generation = self.index.generation

    async def __call__(self, record: Record) -> None:
        """Chunk one version.

        Raises:
            Rejected: the text has no chunk, or its blob is missing or altered.
            Unavailable: a component is unavailable; call again.
        """
        if self.past is not None and not await self.past.shows(record):
            return
        if record.value is None:  # the tombstone of a version that was removed from the truth
            return
        event = decode(record.value, DocumentExtracted)
        document = event.document
        tracing.about(document.tenant, document.document_id)
        if self.limit is not None:
            await self.limit(record)
        # Before the text is read: the text of an overtaken version may be gone, and its replay must not fail.
        answerable, entry = await self._answerable(document)
        if not answerable:
            return
        if not redriven(record) and await self.statuses.has_failed(document, entry):
            log.info("version_failed_before", document_id=document.document_id, version=document.version)
            return
        async with self.room.taken(document.text_size if event.text is None else 0, document.tenant):
            await self._chunk(event, redriven(record), extracted_at=record.timestamp)

    async def _chunk(self, event: DocumentExtracted, headers: Mapping[str, str], *, extracted_at: int) -> None:
        document = msgspec.structs.replace(event.document, extracted_at=extracted_at)
        chunks: tuple[Chunk, ...] = ()
        if not document.deleted:
            if event.prepared:
                chunks = await self.parsers.from_prepared(
                    document, await prepared_chunks_of(event, self.blobs), self.tokens
                )
            else:
                event = msgspec.structs.replace(event, document=document)
                text = await text_of(event, self.blobs)
                chunks = await self.parsers.chunk(event, text, self._generation, self.tokens)
            if not chunks:
                raise Rejected(f"no chunk could be made from {document.source}/{document.path}", "empty")
            # An erasure may have ended meanwhile in another generation: the text must not come into the log again.
            if not (await self._answerable(document))[0]:
                return
        await self._announce(document, chunks, headers)

    async def _answerable(self, document: DocumentVersion) -> tuple[bool, Entry | None]:
        """Return whether the version may answer, and its document's entry; if it never can, it leaves the truth."""
        head, entry = await asyncio.gather(self.index.head(document.document_id), self.statuses.entry(document))
        overtaken = _overtaken(document, head, entry)
        if overtaken:
            await tombstone(self.publish, document.document_id, document.version)
            log.info("version_overtaken", document_id=document.document_id, version=document.version)
        return not overtaken, entry

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Record the failure in the document's status, where the record can be decoded.

        A version that already answers keeps its outcome: then only a retry failed.
        """
        try:
            event = decode(record.value, DocumentExtracted)
        except Rejected:
            return
        document = event.document
        answering = await self.index.answering(document.document_id, document.version)
        await self.statuses.failed(document, answering, error=sentence, code=code)
        await self.statuses.forget_surplus(document, self.index)
        await self.index.flush()  # before the commit; whatever else this stage does is on the log

    async def _announce(self, document: DocumentVersion, chunks: tuple[Chunk, ...], headers: Mapping[str, str]) -> None:
        document = msgspec.structs.replace(document, given=None, reading=None, body=None)  # not needed here
        many = await json_of(chunks)
        if len(many) > CLAIM_CHECK_BYTES // 2:  # room for the document's own metadata
            blob = await self.blobs.put(document.tenant, document.document_id, many)
            if not (await self._answerable(document))[0]:  # storing takes long; the weekly sweep collects the blob
                return
            value = encode(DocumentChunked(document=document, blob=blob))
        else:
            value = encode(DocumentChunked(document=document, chunks=chunks))
        key = document.document_id.encode()
        await self.publish(chunks_topic(self._generation.id), value, key=key, headers=headers)


def _overtaken(document: DocumentVersion, head: Head | None, entry: Entry | None) -> bool:
    """Return whether the version can never answer: a newer one does, it left the truth, or the document was erased.

    An accepted newer version is not enough: if it fails, this one answers. An erasure can't fail.
    """
    if head is not None and head.version > document.version:
        return True
    if entry is None:
        return False
    return (entry.erased and entry.accepted.version > document.version) or entry.was_forgotten(document.version)
