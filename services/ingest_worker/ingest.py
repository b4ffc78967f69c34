"""The first stage: a submission becomes a version on documents.extracted, or is seen to need none.

Order of effects (CORRECTNESS 1): the ledger by a conditional write, then the event, then the commit.
What it reads of a file is decided in `extract`, what a submission means in `accept`.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
import structlog

from services.ingest_worker import accept
from services.ingest_worker.accept import Answering, Decision, Joined, Published, Settled, Submission, Superseded
from services.ingest_worker.extract import EXTRACTOR, Extraction
from services.ingest_worker.parsers import ParserPool
from shared.blobs import CLAIM_CHECK_BYTES, Blobs
from shared.claim_check import submission_value
from shared.contracts import (
    ERASED,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    Place,
    ReadyChunk,
    encode,
    truth_key,
)
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.index import Index
from shared.ledger import Entry, Ledger
from shared.log import Publish, Record
from shared.log.dead_letters import Owner
from shared.places import PLACE_HEADER, header, place_header, place_of, redriven
from shared.room import Room
from shared.statuses import Statuses
from shared.submission import deletion, description_hash, needs_headers, submission_of
from shared.topics import EXTRACTED, SUBMITTED

log = structlog.get_logger(__name__)

REKEYED = "sluice-rekeyed"


class Ingest:
    """Handles records of documents.submitted. Every call may be repeated."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        index: Index,
        blobs: Blobs,
        parsers: ParserPool,
        publish: Publish,
        statuses: Statuses,
        partition_of: Callable[[bytes], Awaitable[int]],
        room: Room,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._blobs = blobs
        self._parsers = parsers
        self._publish = publish
        self._statuses = statuses
        self._partition_of = partition_of
        self._room = room

    async def __call__(self, record: Record) -> None:
        """Take in one record.

        Raises:
            Rejected: it can't be taken; `failed` writes that down.
            Unavailable: a part is away; call again.
        """
        submitted = await self._submitted(record)
        name = submitted.document_id
        async with self._room.taken(submitted.blob.size if submitted.blob else 0):
            await self._take(record, submitted, name)

    async def _take(self, record: Record, submitted: DocumentSubmitted, name: str) -> None:
        entry, place = await self._ledger.get(name), place_of(record)
        if entry is not None and entry.tenant != submitted.tenant:
            raise Rejected(f"document {name} is not of the tenant {submitted.tenant!r}", "foreign")
        # Before its body is asked for, or written anew under the right key: that of an erased document is gone.
        if accept.late(entry, place):
            log.info("submission_superseded", document_id=name)
            return
        if await self._rekeyed(record, submitted, name):
            return
        body = await self._body(submitted, name)
        submission = _submission(submitted, name, place, body)
        answering = await self._answering(name)
        decision = accept.decide(entry, submission, answering)
        extraction: Extraction | None = None
        if isinstance(decision, Published) and body is not None:
            extraction = await self._extract(submitted, body)
        decision = await self._write(submission, answering)
        match decision:
            case Superseded():
                log.info("submission_superseded", document_id=name)
            case Settled(entry):
                await self._statuses.notify(entry)
            case Joined(entry):
                log.info("submission_joined", document_id=name, version=entry.accepted.version)
            case Published(entry):
                if body is not None and extraction is None:
                    extraction = await self._extract(submitted, body)
                await self._announce(entry, submitted, extraction)

    @staticmethod
    def owner(record: Record) -> Owner | None:
        """Return whose record it is, None where it can't be read."""
        try:
            submitted = submission_of(record)
        except Rejected:
            return None
        return Owner(submitted.tenant, submitted.document_id, submitted.source, submitted.path)

    async def failed(self, record: Record, sentence: str, code: str) -> None:
        """Write down that the record could not be taken, where its document is known, and wake its waiters."""
        try:
            submitted = submission_of(record)
        except Rejected:
            return
        name = submitted.document_id
        # A failure moves only `last`, so what the body was doesn't matter.
        submission = _submission(submitted, name, place_of(record), None)

        def failed(seen: Entry | None) -> Entry | None:
            if seen is not None and seen.tenant != submitted.tenant:
                return None  # what was wrong with it is that the document is another tenant's
            return accept.fail(seen, submission, sentence, code)

        entry = await self._ledger.update(name, failed)
        if entry is not None:
            await self._statuses.notify(entry)

    async def _submitted(self, record: Record) -> DocumentSubmitted:
        """Return the record's message; a null under the id of a document that is known deletes it."""
        if record.value is None and (id_ := _document_key(record)) is not None:
            entry = await self._ledger.get(id_)
            if entry is not None:
                return deletion(entry)
        return submission_of(record)

    async def _rekeyed(self, record: Record, submitted: DocumentSubmitted, name: str) -> bool:
        """Return whether the record went on under the right key, because it was in a foreign place."""
        key = name.encode()
        if header(record, REKEYED) is not None:
            return False
        if record.key == key and record.partition == await self._partition_of(key):
            return False
        headers = {REKEYED: "1", PLACE_HEADER: place_header(place_of(record)), **redriven(record)}
        value = record.value
        # Ours replace its headers, and might make it exceed the topic's limit.
        if value is None or needs_headers(record) or len(value) > CLAIM_CHECK_BYTES:
            value = await submission_value(submitted, self._blobs)
        await self._publish(SUBMITTED, value, key=key, headers=headers)
        log.info("record_rekeyed", document_id=name, partition=record.partition, offset=record.offset)
        return True

    async def _body(self, submitted: DocumentSubmitted, name: str) -> bytes | None:
        if submitted.deleted:
            return None
        if submitted.text is not None:
            return submitted.text.encode("utf-8", "surrogatepass")
        if submitted.content is not None:
            return submitted.content
        if submitted.blob is not None:
            return await self._blobs.get(submitted.tenant, name, submitted.blob)
        raise Rejected(f"{submitted.source}/{submitted.path} has no body: text, content or blob is needed", "no_body")

    async def _answering(self, name: str) -> Answering | None:
        head = await self._index.head(name)
        if head is None:
            return None
        whole = head.deleted or await self._index.points(name) == head.chunk_count
        return Answering(version=head.version, deleted=head.deleted, whole=whole)

    async def _extract(self, submitted: DocumentSubmitted, body: bytes) -> Extraction:
        return await self._parsers.extract(
            body,
            filename=submitted.filename or submitted.path,
            media_type=submitted.media_type or ("text/markdown" if submitted.text is not None else None),
            title_hint=submitted.title,
        )

    async def _write(self, submission: Submission, answering: Answering | None) -> Decision:
        decision: Decision = Superseded()

        def transition(seen: Entry | None) -> Entry | None:
            nonlocal decision
            decision = accept.decide(seen, submission, answering)
            return None if isinstance(decision, Superseded) else decision.entry

        await self._ledger.update(submission.document_id, transition)
        return decision

    async def _announce(self, entry: Entry, submitted: DocumentSubmitted, extraction: Extraction | None) -> None:
        document = _version(entry, submitted, extraction)
        text: str | None = None
        if extraction is not None:
            data = extraction.text.encode()
            ref = await self._blobs.put(entry.tenant, entry.document_id, data)
            document = msgspec.structs.replace(document, text_sha256=ref.sha256, text_size=ref.size)
            text = extraction.text if len(data) <= CLAIM_CHECK_BYTES // 2 else None  # JSON may double it
        event = DocumentExtracted(
            document=document,
            text=text,
            pages=extraction.pages if extraction else (),
            note=extraction.note if extraction else None,
        )
        if extraction is not None and extraction.chunks:
            event = await self._with_chunks(event, extraction.chunks)
        await self._publish(
            EXTRACTED,
            encode(event),
            key=truth_key(entry.document_id, document.version),
            route=entry.document_id.encode(),
        )
        log.info("version_accepted", document_id=entry.document_id, version=document.version, outcome=document.outcome)

    async def _with_chunks(self, event: DocumentExtracted, chunks: tuple[ReadyChunk, ...]) -> DocumentExtracted:
        if event.note is not None:
            log.warning("chunks_left_out", document_id=event.document.document_id, note=event.note)
        data = msgspec.json.encode(chunks)
        if len(data) <= CLAIM_CHECK_BYTES // 2:  # they hold the text: it need not be there twice
            return msgspec.structs.replace(event, text=None, chunks=chunks)
        ref = await self._blobs.put(event.document.tenant, event.document.document_id, data)
        return msgspec.structs.replace(event, text=None, chunks_blob=ref)


def _document_key(record: Record) -> str | None:
    """Return the record's key where it is written as our ids are."""
    try:
        id_ = (record.key or b"").decode()
        return id_ if str(UUID(id_)) == id_ else None
    except ValueError:
        return None


def _submission(submitted: DocumentSubmitted, name: str, place: Place, body: bytes | None) -> Submission:
    deletes = submitted.deleted
    return Submission(
        document_id=name,
        tenant=submitted.tenant,
        source=submitted.source,
        path=submitted.path,
        place=place,
        raw_hash=ERASED if submitted.erases else accept.DELETION if deletes else bytes_hash(body or b""),
        metadata_hash="" if deletes else description_hash(submitted),
        extractor="" if deletes else EXTRACTOR,
        title=submitted.title,
        url=submitted.url,
        tags=submitted.tags,
    )


def _version(entry: Entry, submitted: DocumentSubmitted, extraction: Extraction | None) -> DocumentVersion:
    accepted = entry.accepted
    return DocumentVersion(
        document_id=entry.document_id,
        version=accepted.version,
        place=accepted.place,
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        outcome=accepted.outcome,
        raw_hash=accepted.raw_hash,
        metadata_hash=accepted.metadata_hash,
        extractor=accepted.extractor,
        etag=accepted.etag,
        title=submitted.title or (extraction.title if extraction else None),
        description=submitted.description or (extraction.description if extraction else None),
        url=submitted.url or (extraction.url if extraction else None),
        filename=submitted.filename,
        tags=submitted.tags or (extraction.tags if extraction else ()),
        metadata={**_said(extraction), **submitted.metadata},
        chunk_size=submitted.chunk_size,
        chunk_overlap=submitted.chunk_overlap,
        document_type=extraction.document_type if extraction else "",
        source_type=_source_type(submitted, extraction),
        language=extraction.language if extraction else None,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )


def _said(extraction: Extraction | None) -> dict[str, Any]:
    """Return what the file says of itself and a version has no field for; the sender's own word goes before."""
    if extraction is None:
        return {}
    said = {
        "pageCount": len(extraction.pages) or None,
        "documentCreated": extraction.created,
        "documentModified": extraction.modified,
        "extractionNote": extraction.note,
    }
    return {name: value for name, value in said.items() if value is not None}


def _source_type(submitted: DocumentSubmitted, extraction: Extraction | None) -> str:
    if submitted.url is not None and submitted.text is None:
        return "url"
    if submitted.filename is None:
        return "text"
    return extraction.document_type if extraction else "text"
