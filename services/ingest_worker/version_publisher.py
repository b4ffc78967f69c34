"""Publishes an accepted version on documents.extracted, with its text or a reference to it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import structlog

from services.ingest_worker.accept import Submission
from services.ingest_worker.extract import Extraction
from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.claim_check import json_of
from shared.contracts import (
    BlobRef,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    PreparedChunk,
    encode,
    truth_key,
)
from shared.log import Publish
from shared.state.ledger import Accepted, Entry
from shared.topics import EXTRACTED

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class VersionPublisher:
    """Publishes accepted versions. A repeated call publishes the same version with the same text."""

    blobs: Blobs
    send: Publish

    async def publish(
        self,
        entry: Entry,
        submitted: DocumentSubmitted,
        submission: Submission,
        extraction: Extraction | None,
        headers: Mapping[str, str],
    ) -> None:
        """Publish the accepted version of `entry`; its text is stored unless `submission` names it.

        `headers` tell the later stages how often the submission was redriven.

        Raises:
            Rejected: another worker stored the version's text first, and that text is missing or altered.
        """
        text: str | None = None
        ref = None if extraction is None else submission.text or await self.store_text(submission, extraction)
        if extraction is not None and ref is not None:
            extraction, ref = await self._first_text(entry, extraction, ref)
        document = _version(entry, submitted, extraction)
        if extraction is not None and ref is not None:
            document = msgspec.structs.replace(document, text_sha256=ref.sha256, text_size=ref.size)
            text = extraction.text if ref.size <= CLAIM_CHECK_BYTES // 2 else None  # JSON may double it
        event = DocumentExtracted(document=document, text=text)
        if extraction is not None:
            event = msgspec.structs.replace(event, pages=extraction.pages, parts=extraction.parts)
            event = await self._with_chunks(event, extraction.chunks) if extraction.chunks else event
        await self.send(
            EXTRACTED,
            encode(event),
            key=truth_key(entry.document_id, document.version),
            route=entry.document_id.encode(),
            headers=headers,
        )
        log.debug("version_accepted", document_id=entry.document_id, version=document.version, outcome=document.outcome)

    async def store_text(self, submission: Submission, extraction: Extraction | None) -> BlobRef | None:
        """Store the extracted text and return its blob; None where there is no text."""
        if extraction is None:
            return None
        return await self.blobs.put(submission.tenant, submission.document_id, extraction.text.encode())

    async def _first_text(self, entry: Entry, extraction: Extraction, ref: BlobRef) -> tuple[Extraction, BlobRef]:
        """Return the extraction with the version's final text: that of the worker that accepted it (ADR 0006).

        Raises:
            Rejected: another worker accepted it, and its text is missing or altered.
        """
        first = entry.accepted.text
        if first is None or first.sha256 == ref.sha256:
            return extraction, ref
        log.warning("text_read_otherwise", document_id=entry.document_id, version=entry.accepted.version)
        text = (await self.blobs.get(entry.tenant, entry.document_id, first)).decode()
        # The offsets belong to our text, not to this one.
        return msgspec.structs.replace(extraction, text=text, pages=(), parts=()), first

    async def _with_chunks(self, event: DocumentExtracted, chunks: tuple[PreparedChunk, ...]) -> DocumentExtracted:
        data = await json_of(chunks)
        if len(data) <= CLAIM_CHECK_BYTES // 2:  # the chunks contain the text, so the event needn't repeat it
            return msgspec.structs.replace(event, text=None, chunks=chunks)
        ref = await self.blobs.put(event.document.tenant, event.document.document_id, data)
        return msgspec.structs.replace(event, text=None, chunks_blob=ref)


def _version(entry: Entry, submitted: DocumentSubmitted, extraction: Extraction | None) -> DocumentVersion:
    accepted, found = entry.accepted, extraction or Extraction(text="", document_type="txt")
    return DocumentVersion(
        **{name: getattr(accepted, name) for name in Accepted.__struct_fields__ if name != "text"},
        document_id=entry.document_id,
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        title=submitted.title or found.title,
        description=submitted.description or found.description,
        url=submitted.url or found.url,
        filename=submitted.filename,
        tags=submitted.tags or found.tags,
        file=found.file,
        metadata={**({"pageCount": len(found.pages)} if found.pages else {}), **submitted.metadata},
        chunk_size=submitted.chunk_size,
        chunk_overlap=submitted.chunk_overlap,
        document_type=found.document_type,
        text_format=found.text_format,
        source_type=_source_type(submitted, extraction),
        language=found.language,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )


def _source_type(submitted: DocumentSubmitted, extraction: Extraction | None) -> str:
    if submitted.url is not None and submitted.text is None:
        return "url"
    if submitted.filename is None:
        return "text"
    return extraction.document_type if extraction else "text"
