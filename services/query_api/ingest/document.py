"""`POST /rag/ingest`, `/rag/ingest/text` and `/rag/ingest/url`: one document as JSON, or a page that a worker fetches.

Also the replies that all ingest routes share.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, get_args

import msgspec
from litestar import Response
from litestar.params import JSONBody

from services.query_api.http.problems import API, MOST_NAMED, Problem, invalid, path_of
from services.query_api.http.reply_warnings import warn
from services.query_api.http.request import (
    DEFAULT_WAIT_S,
    HEAVY,
    ApiRequest,
    beside,
    described,
    metadata_of,
    name_of,
    not_blank,
    parse_json,
    tags_of,
    wait_of,
)
from services.query_api.http.route_decorator import CHUNKS, METADATA, WHOLE, submit
from services.query_api.ingest.submissions import SubmissionEnd, SubmissionReceipt, Submissions
from shared.contracts import CHANGED, CONFLICT, GONE, Crawl, DocumentSubmitted, Kept, Note, OnConflict
from shared.errors import Rejected
from shared.inputs import prepared_chunks as ready_chunks
from shared.inputs.limits import LARGEST, LONGEST_PATH, LONGEST_SOURCE, LONGEST_TITLE, checked_sizes
from shared.inputs.prepared_chunks import SkippedChunk
from shared.inputs.urls import canonical
from shared.times import iso, now_ms

_REFUSALS = {CONFLICT: 409, CHANGED: 412, GONE: 404}  # by error code; other failures are a 422
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
T = TypeVar("T")
LOOK_BACK_S = 1  # seconds after which a client should ask again about a document in progress


class DescribedBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every way of sending a document can say about it."""

    title: str | None = None
    tags: list[str] | str | None = None
    metadata: dict[str, Any] | str | None = None
    chunk_size: int | None = None  # characters, 100 to 2000
    chunk_overlap: int | None = None  # characters, up to half of the size
    subject_id: str | int | None = None  # stored as `metadata.subjectId`, by which /rag/query filters
    keep: list[str] | str | None = None  # title, description, tags, metadata: keep the old value if this body has none
    on_conflict: str | None = None  # replace, error or new: what to do if the document exists with other content
    callback_url: str | None = None  # called once the submission has ended: docs/callbacks.md

    def document(self, tenant: str, source: str, path: str, **more: Any) -> DocumentSubmitted:
        """Return the submission; `more` are fields that this body lacks. Raises a 400 for an invalid one."""
        called, metadata = self.callback_url or "", metadata_of(self.metadata)
        if self.subject_id is not None and str(self.subject_id).strip():
            metadata = metadata_of({**metadata, "subjectId": self.subject_id})
        document = DocumentSubmitted(
            tenant=tenant,
            source=name_of(source, "source", LONGEST_SOURCE),
            path=name_of(path, "path", LONGEST_PATH),
            title=title_of(self.title),
            tags=tags_of(self.tags),
            metadata=metadata,
            **sizes_of(self.chunk_size, self.chunk_overlap),
            keep=keep_of(self.keep),
            on_conflict=on_conflict_of(self.on_conflict),
            # Whether the address may be called is decided when it is: docs/callbacks.md.
            callback_url=url_of(called, "callbackUrl") if called.strip() else None,
            submitted_at=now_ms(),
            **more,
        )
        return described(document)


class IngestBody(DescribedBody, frozen=True, kw_only=True, rename="camel"):
    """A document. `source` and `path` name it; sending the same pair again replaces it."""

    source: str
    path: str
    text: str | None = None
    chunks: list[Any] | str | None = None  # prepared chunks, instead of `text`
    url: str | None = None  # where the worker fetches the document, instead of `text`
    description: str | None = None
    hash: str | None = None  # shown; a sha256 that differs from the text's causes a warning


class TextBody(DescribedBody, frozen=True, kw_only=True, rename="camel"):
    """A text without a path. The path comes from its title, or from its content if it has none."""

    text: str


class ReplacedVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The previous version."""

    version: int
    updated_at: str


class IngestReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The submission's status: accepted, created, updated, unchanged, deleted, failed or superseded."""

    status: str
    document_id: str | None = None
    submission: str | None = None  # with `accepted`: /rag/documents/{id}?submission= shows how this submission ended
    chunk_count: int | None = None
    replaced: ReplacedVersion | None = None  # with `updated`
    changed: tuple[str, ...] = ()  # with `updated`: fields that differ, if the body is the same
    dropped: tuple[Kept, ...] = ()  # fields that the previous version had and this submission left out
    path: str | None = None  # in the items of a batch or an upload, and if `onConflict=new` chose another path
    message: str | None = None
    source_id: str | None = None
    chunks_created: int | None = None
    file: str | None = None
    error: str | None = None
    code: str | None = None
    skipped: tuple[SkippedChunk, ...] = ()  # prepared chunks that are invalid, the first 20
    skipped_count: int = 0  # all of them
    source: str | None = None  # in the items of a batch or an upload
    notes: tuple[Note, ...] = ()  # the first 20 of what could not be read of the document
    note_count: int = 0  # of all of them
    warnings: tuple[str, ...] = ()  # parts of the request that were ignored or are doubtful


@submit("/rag/ingest", line="add or replace a document: source, path, text", takes=CHUNKS)
async def rag_ingest(data: JSONBody[IngestBody], request: ApiRequest) -> Response[IngestReply]:
    """Add a document, or replace the document with the same source and path."""
    heavy = len(await request.body()) > HEAVY
    document, skipped, doubt = await beside(heavy, document_of, request.user.tenant, data)
    if doubt is not None:
        warn(request, doubt, "hash")
    return await taken(request, document, skipped=skipped)


@submit("/rag/ingest/text", line="add a text", takes=WHOLE)
async def rag_ingest_text(data: JSONBody[TextBody], request: ApiRequest) -> Response[IngestReply]:
    """Add a text; its title, or its content if it has none, becomes its path."""
    document = await beside(len(await request.body()) > HEAVY, _text_document, request.user.tenant, data)
    return await taken(request, document, wordy=True)


def _text_document(tenant: str, data: TextBody) -> DocumentSubmitted:
    text = not_blank(data.text, "text")
    return data.document(tenant, "text", title_of(data.title) or content_name(text.encode()), text=text)


def document_of(tenant: str, data: IngestBody) -> tuple[DocumentSubmitted, tuple[SkippedChunk, ...], str | None]:
    """Return the submission made from a body, the prepared chunks that were left out of it, and the hash's doubt.

    Raises:
        Problem: 400, a field can't be.
    """
    body, skipped = _body_of(data)
    document = data.document(tenant, data.source, data.path, description=data.description, hash=data.hash, **body)
    return document, skipped, hash_doubt(document)


def hash_doubt(document: DocumentSubmitted) -> str | None:
    """Return a warning if the sender's hash has the form of a SHA-256 but isn't the body's, else None."""
    stated = (document.hash or "").strip()
    if not _SHA256.fullmatch(stated) or (body := document.body) is None:
        return None
    digest = hashlib.sha256(body).hexdigest()
    return None if digest == stated.lower() else f"hash: the body's sha256 is {digest}, not the one that was sent"


async def taken(
    request: ApiRequest, document: DocumentSubmitted, *, skipped: Sequence[SkippedChunk] = (), wordy: bool = False
) -> Response[IngestReply]:
    """Submit the document, and return its status as `replied` does. Raises a 503 if it couldn't be accepted."""
    receipt = await request.part(Submissions).submit(document)
    return await replied(request, receipt, partial(reply_of, receipt, wordy=wordy, skipped=skipped))


async def replied(
    request: ApiRequest,
    receipt: SubmissionReceipt,
    reply: Callable[[SubmissionEnd | None], T],
    *,
    otherwise: float = DEFAULT_WAIT_S,
) -> Response[T]:
    """Return the reply about the submission's end when it is processed; without one when the caller's wait is over.

    Raises:
        Problem: 422, the document can't be processed.
    """
    wait_s, headers = wait_of(request, otherwise=otherwise)
    ended = await request.part(Submissions).end(receipt, wait_s)
    if ended is None:  # links to the submission's status and to its event stream (RFC 5989)
        prefix = API if path_of(request.scope).startswith(f"{API}/") else ""
        document = f"{prefix}/rag/documents/{receipt.document_id}"
        location, watched = f"{document}?submission={receipt.token}", f"{document}/events?since={receipt.token}"
        links = {"Location": location, "Link": f'<{watched}>; rel="monitor"', "Retry-After": str(LOOK_BACK_S)}
        return Response(reply(None), status_code=202, headers={**links, **headers})
    last = ended.last
    if last.status == "failed":
        raise Problem(
            _REFUSALS.get(last.code or "", 422),
            last.error or "the document could not be processed",
            code=(last.code or "failed").upper(),
            details={"documentId": receipt.document_id, "status": "failed"},
            headers=headers,
        )
    return Response(reply(ended), headers=headers)


def reply_of(
    receipt: SubmissionReceipt, ended: SubmissionEnd | None, *, wordy: bool, skipped: Sequence[SkippedChunk] = ()
) -> IngestReply:
    """Return the reply for a submission, ended or not; with `wordy`, also the fields that older clients read."""
    left_out: dict[str, Any] = {"skipped": tuple(skipped[:MOST_NAMED]), "skipped_count": len(skipped)}
    if ended is None:
        return IngestReply(status="accepted", document_id=receipt.document_id, submission=receipt.token, **left_out)
    last, count = ended.last, ended.chunk_count
    id_ = ended.entry.document_id  # not the receipt's id if the submission got another name
    if last.status in ("deleted", "superseded"):
        return IngestReply(status=last.status, document_id=id_, **left_out)
    failed, reading = last.status == "failed", ended.entry.reading(last.version)
    reply = IngestReply(
        status=last.status,
        document_id=id_,
        chunk_count=None if failed else count,
        error=last.error if failed else None,
        code=(last.code or "failed").upper() if failed else None,
        dropped=last.dropped,
        path=None if id_ == receipt.document_id else ended.entry.path,
        notes=reading.notes,
        note_count=reading.note_count,
        **left_out,
    )
    if last.status == "updated" and (before := last.replaced) is not None:
        replaced = ReplacedVersion(before.version, iso(before.updated_at))
        reply = msgspec.structs.replace(reply, replaced=replaced, changed=last.changed)
    if failed or not wordy:
        return reply
    message = f"document {last.status}, {count} chunk{'' if count == 1 else 's'}"
    return msgspec.structs.replace(reply, message=message, source_id=id_, chunks_created=count)


def sizes_of(size: int | None, overlap: int | None) -> dict[str, Any]:
    """Return the submission's chunk size fields. Raises a 400 for an invalid one."""
    try:
        # Without a size, the overlap's limit is half of the index's own size, which the worker checks.
        checked_sizes(LARGEST if size is None else size, overlap or 0)
    except ValueError as error:
        field = "chunkSize" if "size" in str(error).partition(" must")[0] else "chunkOverlap"
        raise invalid(field, str(error)) from None
    return {"chunk_size": size, "chunk_overlap": overlap}


def _body_of(data: IngestBody) -> tuple[dict[str, Any], tuple[SkippedChunk, ...]]:
    """Return the submission's fields for the body, and the prepared chunks that were left out of it."""
    given = [name for name in ("text", "chunks", "url") if getattr(data, name) is not None]
    if not given:
        raise invalid("text", "is required")
    if len(given) > 1:
        raise invalid(given[-1], f"exactly one of text, chunks and url is needed, not {len(given)}")
    if data.chunks is not None:
        if (data.chunk_size, data.chunk_overlap) != (None, None):
            raise invalid("chunkSize", "applies to text only; these chunks are already split")
        content, skipped = _chunks_of(data.chunks)
        return {"content": content}, skipped
    if data.url is not None:
        return {"url": url_of(data.url)}, ()
    return {"text": not_blank(data.text or "", "text")}, ()


def _chunks_of(chunks: list[Any] | str) -> tuple[bytes, tuple[SkippedChunk, ...]]:
    if isinstance(chunks, str):
        chunks = parse_json(chunks, "chunks", values=CHUNKS.values)
    if not isinstance(chunks, list) or not chunks:
        raise invalid("chunks", "must be a list with at least one chunk")
    found = ready_chunks.prepared_chunks(chunks)
    if not found.chunks:
        raise Problem(
            400,
            f"chunks: none can be used: {found.notes[0].message}",
            details={
                "field": "chunks",
                "skipped": msgspec.to_builtins(found.skipped[:MOST_NAMED]),
                "skippedCount": len(found.skipped),
            },
        )
    return ready_chunks.body_of(chunks), found.skipped


def url_of(url: str, field: str = "url") -> str:
    """Return the URL in its canonical form. Raises a 400 if it is invalid."""
    try:
        return canonical(url)
    except Rejected as error:
        raise invalid(field, error.sentence) from None


def title_of(title: str | None, field: str = "title") -> str | None:
    """Return the trimmed title; None for a blank one."""
    return name_of(title, field, LONGEST_TITLE) if title and title.strip() else None


def keep_of(value: list[str] | str | None) -> tuple[Kept, ...]:
    """Return the fields to keep from the previous version, from a list or `a,b`. Raises a 400 for an unknown one."""
    known: tuple[Kept, ...] = get_args(Kept)
    named = tags_of(value, "keep")
    if unknown := [name for name in named if name not in known]:
        raise invalid("keep", f"{unknown[0]!r} is none of {', '.join(known)}")
    return tuple(name for name in known if name in named)


def on_conflict_of(value: str | None) -> OnConflict | None:
    """Return the choice for a document that exists with other content. Raises a 400 for an unknown one."""
    match (value or "").strip():
        case "" | "replace":
            return None
        case "error" | "new" as known:
            return known
        case unknown:
            raise invalid("onConflict", f"{unknown!r} is none of replace, error, new")


def content_name(content: bytes) -> str:
    """Return the path for a body without a name, made from its content, so that equal content is the same document."""
    return hashlib.sha256(content).hexdigest()


MOST_DEPTH = 10  # the worker's own limit is usually lower


class UrlBody(DescribedBody, frozen=True, kw_only=True, rename="camel"):
    """A page to fetch; its address is its path. `depth` and `sitemap` also fetch linked pages of the same host.

    `callbackUrl` is called once this page has ended, not the pages that it leads to.
    """

    url: str
    source: str = "url"
    depth: int = 0  # most links between the page and a page to fetch
    sitemap: bool = False  # whether to fetch the pages of the site's sitemap


@submit("/rag/ingest/url", line="add a web page, or a site by its sitemap", takes=METADATA)
async def rag_ingest_url(data: JSONBody[UrlBody], request: ApiRequest) -> Response[IngestReply]:
    """Add or update a web page under its address. Each linked page becomes a document of its own."""
    if not 0 <= data.depth <= MOST_DEPTH:
        raise invalid("depth", f"is {data.depth}, but must be from 0 to {MOST_DEPTH}")
    url = url_of(data.url)
    crawl = Crawl(depth=data.depth, sitemap=data.sitemap) if data.depth or data.sitemap else None
    document = data.document(request.user.tenant, data.source, url, url=url, crawl=crawl)
    return await taken(request, document, wordy=True)
