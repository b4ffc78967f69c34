"""`GET /rag/documents/{id}/original`: the document as it was sent, while the log or a blob still has it."""

import asyncio
import re
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from aiokafka import TopicPartition
from litestar import Response
from litestar.params import FromPath, QueryParameter

from services.query_api.documents.document_routes import DocumentViews
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get, submit
from services.query_api.ingest.document import IngestReply, taken
from services.query_api.ingest.upload import reader_of
from shared.contracts import DocumentSubmitted, Given, TextReading
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log.headers import partition_here
from shared.log.read import reading
from shared.runtime.resources import Resources
from shared.state.ledger import Entry
from shared.submission import submission_of
from shared.times import now_ms
from shared.topics import DAY, SUBMITTED

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
Page = Annotated[int | None, QueryParameter(ge=1, description="The page of a PDF that is wanted, as a picture.")]
_UNKNOWN: Final = "application/octet-stream"


async def kept(base: Resources, entry: Entry) -> tuple[DocumentSubmitted, bytes]:
    """Return the accepted version's submission and its body. Raises a 404, code NOT_KEPT, if it is kept no more."""
    submitted = await _submitted(base, entry)
    body = None if submitted is None else submitted.body
    if submitted is not None and body is None and submitted.blob is not None:
        with suppress(Rejected):
            body = await base.blobs.get(entry.tenant, entry.document_id, submitted.blob)
    # Only the hash proves that the record at that place still holds the accepted version's body.
    if body is None or submitted is None or await asyncio.to_thread(bytes_hash, body) != entry.accepted.raw_hash:
        raise Problem(404, await _why_not(base, entry), code="NOT_KEPT")
    return submitted, body


async def _to_reread(base: Resources, entry: Entry) -> DocumentSubmitted | None:
    """Return the accepted version's submission, to be read again; None if its reader hasn't changed since.

    Raises:
        Problem: 404; its code is NOT_KEPT if the document exists but its body is no longer kept.
    """
    code = await base.index.code()
    if code is not None and entry.accepted.extractor in code.extractor.split():
        return None
    sent, body = await kept(base, entry)
    given, reading = entry.accepted.given or Given(), entry.accepted.reading or TextReading(extracted={})
    return DocumentSubmitted(
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        text=sent.text,  # a text is read otherwise than a file
        content=body if sent.text is None else None,
        **msgspec.structs.asdict(given),
        filename=reading.filename,
        media_type=reading.media_type,
        url=reading.url,
        chunk_size=reading.chunk_size,
        chunk_overlap=reading.chunk_overlap,
        submitted_at=now_ms(),
    )


async def _submitted(base: Resources, entry: Entry) -> DocumentSubmitted | None:
    body = entry.accepted.body
    if body is None or (partition := partition_here(place := body.place, base.log.moves)) is None:
        return None
    async with reading(base.log, TopicPartition(SUBMITTED, partition)) as reader:
        there = place.offset < (await reader.bounds())[1]
        record = (await reader.at([place.offset])).get(place.offset) if there else None
    try:
        return None if record is None else submission_of(record)
    except Rejected:  # a record of another log, after SLUICE_LOG was changed
        return None


async def _why_not(base: Resources, entry: Entry) -> str:
    if entry.erased or entry.accepted.outcome == "deleted":
        return "the document is deleted, and its original with it"
    if entry.url is not None and entry.accepted.validators is not None:
        return f"the original of a fetched page isn't kept; its address is {entry.url}"
    kept_ms = await base.log.retention_ms(SUBMITTED)
    how_long = "without a limit" if kept_ms is None else f"for {kept_ms / DAY:g} days"
    return (
        "the original of this document isn't kept any more, but its text is: "
        f"the topic {SUBMITTED} keeps what was sent {how_long}, by its retention"
    )


@get(
    "/rag/documents/{document_id:str}/original",
    role="query",
    ok={"*/*": bytes},
    headers=("ETag", "Content-Disposition"),
)
async def rag_document_original(document_id: FromPath[str], request: ApiRequest, page: Page = None) -> Response[bytes]:
    """Return the document as it was sent, as a download. It is kept as long as the log keeps submissions."""
    tenant = request.user.tenant
    entry = await request.part(DocumentViews).entry(tenant, document_id)
    submitted, body = await kept(request.part(Resources), entry)
    name, media_type = PurePosixPath(submitted.filename or entry.path).name or "document", _media_type(submitted)
    if page is not None:
        try:
            body = await reader_of(request).pdf_copy(body, tenant=tenant, name=name, page=page)
        except Rejected as refused:
            raise Problem(404, refused.sentence) from None
        name, media_type = f"{name}-{page}.png", "image/png"
    return Response(
        body,
        media_type=media_type,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "Content-Security-Policy": "sandbox",  # if a browser shows it all the same, no script in it runs
            "Cache-Control": "private, no-cache",
            "ETag": f'"{entry.accepted.version}"',
        },
    )


@submit("/rag/documents/{document_id:str}/reread")
async def rag_document_reread(document_id: FromPath[str], request: ApiRequest) -> Response[IngestReply]:
    """Read the document again from its original if its format's reader has changed since; else it is `unchanged`.

    Where the text stays the same, nothing is embedded.
    """
    entry = await request.part(DocumentViews).entry(request.user.tenant, document_id)
    document = await _to_reread(request.part(Resources), entry)
    if document is None:
        return Response(IngestReply(status="unchanged", document_id=document_id))
    return await taken(request, document)


def _media_type(submitted: DocumentSubmitted) -> str:
    if submitted.text is not None and submitted.media_type is None:
        return "text/plain; charset=utf-8"
    essence = (submitted.media_type or "").partition(";")[0].strip().lower()
    return essence if _MEDIA_TYPE.fullmatch(essence) else _UNKNOWN
