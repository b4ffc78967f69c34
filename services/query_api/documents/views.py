"""Documents as their owner sees them: lists, states, passages, text."""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args
from uuid import UUID

import msgspec
from litestar import Response, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from services.query_api.documents.plain_text import plain
from services.query_api.http.auth import needs
from services.query_api.http.problems import Problem, invalid, not_found
from services.query_api.http.request import ApiRequest, tags_of
from services.query_api.ingest.document import IngestReply, taken
from services.query_api.ingest.submissions import Submissions
from services.query_api.search.search import public
from shared.blobs import Blobs
from shared.contracts import TERMINAL, BlobRef, LogPosition, Status, TextFormat, text_format_of
from shared.log.headers import position_from
from shared.state.index import Head, Index
from shared.state.ledger import Entry, Ledger
from shared.store import Filter, Match, Payload
from shared.submission import deletion
from shared.times import iso

STATUSES = tuple(status for status in get_args(Status) if status != "superseded")  # of a document's newest submission
State = Literal["accepted", "ready", "failed", "deleted"]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many items, 1 to 1000.")]
Cursor = Annotated[str | None, QueryParameter(description="`nextCursor` of the page before.")]


class DocumentView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A document: how its newest submission stands, or the one that was asked for, and what answers meanwhile."""

    document_id: str
    source: str
    path: str
    title: str | None
    status: Status
    version: int
    state: State  # what answers: `accepted` and `failed` say that nothing does yet
    state_version: int  # the version that answers or took the document away, else the one under way or failed
    chunk_count: int
    tags: tuple[str, ...]
    created_at: str
    updated_at: str
    url: str | None = None
    error: str | None = None
    code: str | None = None


class DocumentPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Documents, last changed first."""

    items: list[DocumentView]
    next_cursor: str | None


class ChunkView(msgspec.Struct, frozen=True):
    """A passage."""

    text: str
    metadata: dict[str, Any]


class ChunkPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Passages in reading order."""

    items: list[ChunkView]
    next_cursor: str | None


class ListCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: from this time down, without those already shown of that time."""

    updated_at: int
    seen: tuple[str, ...]


class ChunkCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the chunks of one version, in one generation, go on."""

    generation: str
    version: int
    start: Annotated[int, msgspec.Meta(ge=0)]


K = TypeVar("K", ListCursor, ChunkCursor)


class DocumentViews:
    """Reads documents. Another tenant's are as unknown as those that never were."""

    def __init__(self, ledger: Ledger, index: Index, blobs: Blobs) -> None:
        self._ledger = ledger
        self._index = index
        self._blobs = blobs

    async def entry(self, tenant: str, document_id: str) -> Entry:
        """Return the tenant's document, or raise the 404."""
        try:
            known = str(UUID(document_id)) == document_id
        except ValueError:
            known = False
        entry = await self._ledger.get(document_id) if known else None
        if entry is None or entry.tenant != tenant:
            raise not_found()
        return entry

    async def view(self, tenant: str, document_id: str, submission: LogPosition | None = None) -> DocumentView:
        """Return the document as replies show it, with the status of `submission` where one is given.

        Raises:
            Problem: 404.
        """
        entry = await self.entry(tenant, document_id)
        shown = _view(entry, await self._index.head(document_id))
        return shown if submission is None else _of_submission(shown, entry, submission)

    async def page(self, where: Filter, *, limit: int, cursor: ListCursor | None) -> DocumentPage:
        """Return a page of the matching documents."""
        start, seen = (cursor.updated_at, cursor.seen) if cursor else (None, ())
        entries = await self._ledger.page(where, limit=limit, start=start, seen=seen)
        heads = await self._index.heads([entry.document_id for entry in entries]) if entries else {}
        return DocumentPage(
            items=[_view(entry, heads.get(entry.document_id)) for entry in entries],
            next_cursor=_cursor(_after(entries, cursor)) if len(entries) == limit else None,
        )

    async def chunks(self, tenant: str, document_id: str, *, limit: int, cursor: ChunkCursor | None) -> ChunkPage:
        """Return a page of the answering version's chunks.

        Raises:
            Problem: 404; 409 when the version or generation the cursor names no longer answers.
        """
        start, generation = cursor.start if cursor else 0, self._index.generation.id
        head, payloads = await self._answering(tenant, document_id, start=start, limit=limit)
        if cursor and (head is None or (cursor.generation, cursor.version) != (generation, head.version)):
            raise Problem(409, "the document has changed since this cursor was given; start again without it")
        if head is None:
            return ChunkPage(items=[], next_cursor=None)
        end = start + len(payloads)
        after = ChunkCursor(generation, head.version, end) if end < head.chunk_count and payloads else None
        return ChunkPage(
            items=[ChunkView(payload["text"], public(payload["metadata"])) for payload in payloads],
            next_cursor=_cursor(after) if after else None,
        )

    async def text(self, tenant: str, document_id: str) -> tuple[str, TextFormat]:
        """Return the extracted text of the answering version, and how it is written.

        Raises:
            Problem: 404, also when no version answers.
            Rejected: the text is lost or altered.
        """
        head, first = await self._answering(tenant, document_id, start=0, limit=1)
        if not head or not head.text_sha256 or not first:
            raise Problem(404, "no version of this document answers yet", code="NO_TEXT")
        blob = BlobRef(sha256=head.text_sha256, size=head.text_size)
        text = (await self._blobs.get(tenant, document_id, blob)).decode()
        return text, text_format_of(head.text_format, first[0]["metadata"]["documentType"])

    async def _answering(
        self, tenant: str, document_id: str, *, start: int, limit: int
    ) -> tuple[Head | None, list[Payload]]:
        """Return the head that answers, if any does, and a piece of its version's points."""
        await self.entry(tenant, document_id)
        head = await self._index.head(document_id)
        while head is not None and not head.deleted:
            payloads = await self._index.chunks_page(document_id, head.version, start=start, limit=limit)
            if len(payloads) >= min(limit, head.chunk_count - start):
                return head, payloads
            read, head = head, await self._index.head(document_id)
            if head == read:  # no newer version has taken them away: they are lost
                return read, payloads
        return None, []


@get("/rag/documents", operation_id="rag_documents", guards=[needs("query")])
async def rag_documents(
    request: ApiRequest,
    library: NamedDependency[DocumentViews],
    *,
    source: FromQuery[str | None] = None,
    status: FromQuery[str | None] = None,
    tags: FromQuery[list[str] | None] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> DocumentPage:
    """List documents, last changed first; deleted ones only when asked for by status."""
    must = [Match("tenant", (request.user.tenant,))]
    if source is not None:
        must.append(Match("source", (source,)))
    if status is not None and status not in STATUSES:
        raise invalid("status", f"{status!r} is none of {', '.join(STATUSES)}")
    if status is not None:
        must.append(Match("last.status", (status,)))
    wanted = [tag for value in [*(tags or []), *request.query_params.getall("tags[]", [])] for tag in tags_of(value)]
    if wanted:
        must.append(Match("tags", tuple(wanted)))
    gone = () if status else (Match("last.status", ("deleted",)),)
    return await library.page(
        Filter(must=tuple(must), must_not=gone), limit=limit, cursor=parsed_cursor(cursor, ListCursor)
    )


@get("/rag/documents/{document_id:str}", operation_id="rag_document", guards=[needs("query")])
async def rag_document(
    document_id: FromPath[str],
    request: ApiRequest,
    library: NamedDependency[DocumentViews],
    submission: FromQuery[str | None] = None,
) -> DocumentView:
    """Show how a document stands: what answers, and its newest submission.

    With `submission`, as a 202's `Location` has it, `status`, `version`, `error` and `code` are that submission's own.
    """
    place = None if submission is None else position_from(submission)
    if submission is not None and place is None:
        raise invalid("submission", "is none that this API gave")
    return await library.view(request.user.tenant, document_id, place)


@delete(
    "/rag/documents/{document_id:str}",
    operation_id="rag_document_delete",
    guards=[needs("ingest")],
    status_code=200,
)
async def rag_document_delete(
    document_id: FromPath[str],
    request: ApiRequest,
    library: NamedDependency[DocumentViews],
    submissions: NamedDependency[Submissions],
) -> Response[IngestReply]:
    """Delete a document and all that was made from it."""
    entry = await library.entry(request.user.tenant, document_id)
    return await taken(request, submissions, deletion(entry))


@get("/rag/documents/{document_id:str}/chunks", operation_id="rag_document_chunks", guards=[needs("query")])
async def rag_document_chunks(
    document_id: FromPath[str],
    request: ApiRequest,
    library: NamedDependency[DocumentViews],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> ChunkPage:
    """Show the passages of a document's answering version in reading order."""
    parsed = parsed_cursor(cursor, ChunkCursor)
    return await library.chunks(request.user.tenant, document_id, limit=limit, cursor=parsed)


@get("/rag/documents/{document_id:str}/text", operation_id="rag_document_text", guards=[needs("query")])
async def rag_document_text(
    document_id: FromPath[str], request: ApiRequest, library: NamedDependency[DocumentViews]
) -> Response[str]:
    """Show the extracted text: Markdown, or plain by `Accept: text/plain`."""
    text, text_format = await library.text(request.user.tenant, document_id)
    if text_format != "markdown":
        return Response(text, media_type="text/plain")
    if request.accept.best_match(["text/markdown", "text/plain"]) == "text/plain":
        return Response(plain(text), media_type="text/plain")
    return Response(text, media_type="text/markdown")


def _view(entry: Entry, head: Head | None) -> DocumentView:
    last = entry.last
    state, state_version = state_of(entry, head)
    return DocumentView(
        document_id=entry.document_id,
        source=entry.source,
        path=entry.path,
        title=entry.title or (head.title if head else None),
        status=last.status,
        version=last.version,
        state=state,
        state_version=state_version,
        chunk_count=head.chunk_count if head is not None and not head.deleted else 0,
        tags=entry.tags,
        created_at=iso(entry.created_at),
        updated_at=iso(entry.updated_at),
        url=entry.url,
        error=last.error,
        code=last.code.upper() if last.code else None,
    )


def _of_submission(shown: DocumentView, entry: Entry, place: LogPosition) -> DocumentView:
    own = entry.end_of(place) or entry.submitted(place)
    if own is None:  # the first stage hasn't come to it
        return msgspec.structs.replace(shown, status="accepted", version=0, error=None, code=None)
    return msgspec.structs.replace(
        shown,
        status=own.status,
        version=own.version,
        error=own.error,
        code=own.code.upper() if own.code else None,
    )


def state_of(entry: Entry, head: Head | None) -> tuple[State, int]:
    """Return what answers for the document, and since which version; where nothing does, why."""
    if head is not None:
        return ("deleted" if head.deleted else "ready"), head.version
    waiting = [each.version for each in (*entry.earlier, entry.last) if each.status not in TERMINAL]
    if waiting:
        return "accepted", max(waiting)
    if entry.last.status == "deleted":
        return "deleted", entry.last.version
    # An index that was lost: the document ended well, and is on its way back.
    return ("failed" if entry.last.status == "failed" else "accepted"), entry.last.version


def _after(entries: Sequence[Entry], cursor: ListCursor | None) -> ListCursor:
    last = entries[-1].updated_at
    shown = tuple(entry.document_id for entry in entries if entry.updated_at == last)
    earlier = cursor.seen if cursor and cursor.updated_at == last else ()
    return ListCursor(last, earlier + shown)


def _cursor(cursor: ListCursor | ChunkCursor) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode().rstrip("=")


def parsed_cursor(cursor: str | None, kind: type[K]) -> K | None:
    if not cursor:
        return None
    try:
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind)
    except (ValueError, msgspec.DecodeError):
        raise invalid("cursor", "is none that this API gave") from None
