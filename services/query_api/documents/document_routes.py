"""Routes that list documents, show their state, passages and text, and change or delete one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import UNSET

from services.query_api.documents.listing import DELETED, LONGEST_SEARCH, SORTS, STATES, ListCursor, Listing, State
from services.query_api.documents.listing import first as first_of
from services.query_api.documents.markdown_stripper import plain
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem, invalid, not_found
from services.query_api.http.request import ApiRequest, described, metadata_of, tags_of
from services.query_api.http.route_decorator import METADATA, delete, get, patch
from services.query_api.ingest.document import IngestReply, taken, title_of
from services.query_api.search.results import public
from shared.blobs import Blobs
from shared.contracts import TERMINAL, BlobRef, DocumentSubmitted, Kept, LogPosition, Note, Status, TextFormat, like
from shared.ids import composed, is_uuid
from shared.ids import document_id as id_of
from shared.inputs.prepared_chunks import quality
from shared.runtime.resources import Resources
from shared.state.index import Head, Index
from shared.state.ledger import NOWHERE, Entry, Last, Ledger
from shared.store import Condition, Filter, Ids, Match, Payload
from shared.submission import deletion
from shared.times import LoopTurns, iso, now_ms

STATUSES = tuple(status for status in get_args(Status) if status != "superseded")  # of the newest submission
LOOKED_AT = 1000  # entries read at a time if each has to be checked
_UNREAD = Last(version=0, place=NOWHERE, status="accepted", at=0)
_PLAIN_AT_ONCE = 2  # texts that lose their markup at once; it takes two seconds for a megabyte
_MOST_PLAIN = 4_000_000  # characters
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many items, 1 to 1000.")]
Cursor = Annotated[str | None, QueryParameter(description="`nextCursor` of the previous page.")]


class DocumentView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A document: the status of its newest submission, or of the requested one, and the version that answers."""

    document_id: str
    source: str
    path: str
    title: str | None
    status: Status
    version: int
    state: State  # `ready` or `deleted`; `accepted` and `failed` mean that no version answers yet
    state_version: int  # the version that answers or deleted the document, else the one in progress or failed
    chunk_count: int
    tags: tuple[str, ...]
    created_at: str
    updated_at: str
    url: str | None = None
    error: str | None = None
    code: str | None = None
    etag: str | None = None  # names the accepted version; a PATCH takes it as `If-Match`
    submitted_at: str | None = None  # when its newest submission was appended to the log
    ended_at: str | None = None  # when that submission ended
    moved_to: str | None = None  # the document's new id, after `onConflict=new`
    notes: tuple[Note, ...] = ()  # the first 20 of what could not be read of the accepted version
    note_count: int = 0  # of all of them


class DocumentPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Documents in the requested order."""

    items: list[DocumentView]
    next_cursor: str | None


class QualityView(msgspec.Struct, frozen=True):
    """Measures of how well a passage can be understood alone: docs/chunks.md."""

    diversity: float
    density: float
    completeness: float


class ChunkView(msgspec.Struct, frozen=True):
    """A passage."""

    text: str
    metadata: dict[str, Any]
    quality: QualityView


class ChunkPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Passages in reading order."""

    items: list[ChunkView]
    next_cursor: str | None


class ChunkCursor(msgspec.Struct, frozen=True, array_like=True):
    """The position in the chunks of one version in one generation."""

    generation: str
    version: int
    start: int


class DocumentViews:
    """Reads documents of one tenant. Documents of other tenants are reported as unknown."""

    def __init__(self, ledger: Ledger, index: Index, blobs: Blobs, signer: Signer) -> None:
        self._ledger = ledger
        self._index = index
        self._blobs = blobs
        self._signer = signer  # of cursors
        self._plain = asyncio.Semaphore(_PLAIN_AT_ONCE)

    async def entry(self, tenant: str, document_id: str) -> Entry:
        """Return the tenant's document. Raises a 404 if there is none."""
        entry = await self._ledger.of_tenant(tenant, document_id) if is_uuid(document_id) else None
        if entry is None:
            raise not_found()
        return entry

    async def view(self, tenant: str, document_id: str) -> DocumentView:
        """Return the document as replies show it. Raises a 404 if there is none."""
        return view_of(await self.entry(tenant, document_id), await self._index.head(document_id))

    async def page(self, listing: Listing, *, limit: int, cursor: str | None = None) -> DocumentPage:
        """Return a page of the list. Raises a 400 if the cursor is none of a list in this order."""
        behind = self._signer.opened(cursor, ListCursor) if cursor else None
        if behind is not None and behind.sort != listing.sort:
            raise invalid("cursor", f"was given for sort={behind.sort}")
        own_order = listing.sort in ("-updatedAt", "updatedAt")  # the store's
        entries, after = await (self._by_update if own_order else self._sorted)(listing, limit, behind)
        heads = await self._index.heads([entry.document_id for entry in entries]) if entries else {}
        items, turns = list[DocumentView](), LoopTurns()
        for entry in entries:  # 1,000 take 30 ms
            items.append(view_of(entry, heads.get(entry.document_id)))
            await turns.give()
        return DocumentPage(
            items=items,
            next_cursor=None if after is None else self._signer.sign(after),
        )

    async def _by_update(
        self, listing: Listing, limit: int, cursor: ListCursor | None
    ) -> tuple[list[Entry], ListCursor | None]:
        """Return the page and the next cursor, in the store's own order: reading stops when the page is full."""
        asked = max(limit, LOOKED_AT) if listing.looks else limit
        found: list[Entry] = []
        while True:
            start, seen = (int(cursor.key), cursor.seen) if cursor else (None, ())
            descending = listing.sort.startswith("-")
            entries = await self._ledger.page(listing.where, limit=asked, start=start, seen=seen, descending=descending)
            fitting = {entry.document_id for entry in await self._fitting(listing, entries)}
            for number, entry in enumerate(entries, start=1):
                if entry.document_id in fitting:
                    found.append(entry)
                if len(found) == limit:
                    more = number < len(entries) or len(entries) == asked
                    return found, _after(listing, entries[:number], cursor) if more else None
            if len(entries) < asked:
                return found, None
            cursor = _after(listing, entries, cursor)

    async def _sorted(
        self, listing: Listing, limit: int, cursor: ListCursor | None
    ) -> tuple[list[Entry], ListCursor | None]:
        """Return the page and the next cursor after checking every entry; only the page is kept in memory."""
        best: list[Entry] = []
        async for entries in self._ledger.pages(listing.where, limit=LOOKED_AT):
            best = first_of([*best, *await self._fitting(listing, entries)], listing, limit + 1, cursor)
        page = best[:limit]
        return page, _after(listing, page[-1:], None) if len(best) > limit else None

    async def _fitting(self, listing: Listing, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries that the list shows."""
        fitting = [entry for entry in entries if listing.fits(entry)]
        if listing.state is None or not fitting:
            return fitting
        heads = await self._index.heads([entry.document_id for entry in fitting])
        return [entry for entry in fitting if state_of(entry, heads.get(entry.document_id))[0] == listing.state]

    async def chunks(self, tenant: str, document_id: str, *, limit: int, cursor: str | None = None) -> ChunkPage:
        """Return a page of the answering version's chunks.

        Raises:
            Problem: 400, it is no cursor of chunks; 404; 409 when the version or generation that it names no longer
                answers.
        """
        at = self._signer.opened(cursor, ChunkCursor) if cursor else None
        start, generation = at.start if at else 0, self._index.generation.id
        head, payloads = await self._answering(tenant, document_id, start=start, limit=limit)
        if at and (head is None or (at.generation, at.version) != (generation, head.version)):
            raise Problem(409, "the document has changed since this cursor was issued; start again without a cursor")
        if head is None:
            return ChunkPage(items=[], next_cursor=None)
        end = start + len(payloads)
        following = None
        if end < head.chunk_count and payloads:
            following = self._signer.sign(ChunkCursor(generation, head.version, end))
        return ChunkPage(items=[_chunk_view(payload) for payload in payloads], next_cursor=following)

    async def text(self, tenant: str, document_id: str) -> tuple[str, TextFormat]:
        """Return the extracted text of the answering version, and its format.

        Raises:
            Problem: 404, also when no version answers.
            Rejected: the text is lost or altered.
        """
        head, first = await self._answering(tenant, document_id, start=0, limit=1)
        if not head or not head.text_sha256 or not first:
            raise Problem(404, "no version of this document answers yet", code="NO_TEXT")
        blob = BlobRef(sha256=head.text_sha256, size=head.text_size)
        return (await self._blobs.get(tenant, document_id, blob)).decode(), head.text_format

    async def plain(self, markdown: str) -> str:
        """Return the Markdown's text. It is parsed in a thread, which yields to the event loop, two at a time."""
        async with self._plain:
            return await asyncio.to_thread(plain, markdown)

    async def _answering(
        self, tenant: str, document_id: str, *, start: int, limit: int
    ) -> tuple[Head | None, list[Payload]]:
        """Return the answering head, None if there is none, and a page of its version's points."""
        await self.entry(tenant, document_id)
        head = await self._index.head(document_id)
        while head is not None and not head.deleted:
            payloads = await self._index.chunks_page(document_id, head.version, start=start, limit=limit)
            if len(payloads) >= min(limit, head.chunk_count - start):
                return head, payloads
            read, head = head, await self._index.head(document_id)
            if head == read:  # no newer version has deleted the points, so they are lost
                await self._index.whole()
                return read, payloads
        if head is None:
            await self._index.whole()
        return None, []


@dataclass(frozen=True, kw_only=True)
class ListQuery:
    """Which documents to list, and in what order."""

    source: FromQuery[str | None] = None
    path: FromQuery[str | None] = None
    path_prefix: Annotated[str | None, QueryParameter(name="pathPrefix")] = None
    q: Annotated[
        str | None, QueryParameter(description="Words that must all appear in title, path or description.")
    ] = None
    in_state: Annotated[str | None, QueryParameter(name="state", description=f"One of {', '.join(STATES)}.")] = None
    status: FromQuery[list[str] | None] = None
    tags: FromQuery[list[str] | None] = None
    sort: Annotated[str, QueryParameter(description=f"One of {', '.join(SORTS)}.")] = "-updatedAt"
    limit: Limit = 100
    cursor: Cursor = None

    def check(self) -> None:
        """Raise a 400 for a value that can't be."""
        for name, value in (("source", self.source), ("path", self.path)):
            if value == "":
                raise invalid(name, "must not be empty; leave it out to list all documents")
        statuses = (("status", each, STATUSES) for each in self.status or ())
        for name, given, possible in (("state", self.in_state, STATES), *statuses, ("sort", self.sort, SORTS)):
            if given is not None and given not in possible:
                raise invalid(name, f"{given!r} is none of {', '.join(possible)}")
        if self.q is not None and len(self.q) > LONGEST_SEARCH:
            raise invalid("q", f"has {len(self.q)} characters, but at most {LONGEST_SEARCH} are allowed")


@get(
    "/rag/documents",
    role="query",
    line="list documents: source, path, pathPrefix, q, state, tags, sort",
    query=ListQuery,
)
async def rag_documents(request: ApiRequest, wanted: NamedDependency[ListQuery]) -> DocumentPage:
    """List documents, last changed first. Deleted documents appear only when `state` or `status` names them."""
    library = request.part(DocumentViews)
    wanted.check()
    tenant, source, path = request.user.tenant, wanted.source, wanted.path
    must: list[Condition] = [Match("tenant", (tenant,))]
    if path is not None:
        everywhere = Filter(must=tuple(must))
        sources = await request.part(Resources).ledger.sources(everywhere) if source is None else (source,)
        must.append(Ids(tuple(id_of(tenant, each, path) for each in sources)))
    elif source is not None:
        must.append(Match("source", (composed(source),)))
    if wanted.status:
        must.append(Match("last.status", tuple(wanted.status)))
    if tags := tags_in(request, wanted.tags):
        must.append(Match("tags", tuple(tags)))
    listing = Listing(
        where=Filter(must=tuple(must), must_not=() if wanted.in_state or wanted.status else DELETED),
        path_prefix=composed(wanted.path_prefix or ""),
        words=tuple(composed(wanted.q or "").casefold().split()),
        state=wanted.in_state,
        sort=wanted.sort,
    )
    return await library.page(listing, limit=wanted.limit, cursor=wanted.cursor)


def tags_in(request: ApiRequest, given: Sequence[str] | None) -> list[str]:
    """Return the tags of the query: those given as `tags`, and those as `tags[]`."""
    values = (*(given or ()), *request.query_params.getall("tags[]", []))
    return [tag for value in values for tag in tags_of(value)]


class PatchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields to change. An absent field keeps its value; null or an empty value removes it."""

    title: str | msgspec.UnsetType | None = UNSET
    description: str | msgspec.UnsetType | None = UNSET
    tags: list[str] | str | msgspec.UnsetType | None = UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = UNSET


@patch(
    "/rag/documents/{document_id:str}",
    role="ingest",
    lane="bring",
    line="change a document's metadata",
    takes=METADATA,
    refuses=(409, 412, 422),
    accepted=True,
)
async def rag_document_patch(
    document_id: FromPath[str], data: JSONBody[PatchBody], request: ApiRequest
) -> Response[IngestReply]:
    """Change the title, description, tags or metadata without reading the file again; only a new title is embedded.

    Fields that the body leaves out keep their value; `metadata` is replaced as a whole. With a document's ETag as
    `If-Match`, the reply is 412 when another version has been accepted since.
    """
    given: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(data).items() if value is not UNSET}
    if not given:
        raise Problem(
            400, "the body changes nothing: send title, description, tags or metadata", details={"field": "title"}
        )
    entry = await request.part(DocumentViews).entry(request.user.tenant, document_id)
    names: tuple[Kept, ...] = get_args(Kept)
    document = DocumentSubmitted(
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        patch=True,
        if_version=version_of(request.headers.get("if-match")),
        keep=tuple(name for name in names if name not in given),
        title=title_of(given.get("title")),
        description=given.get("description") or None,
        tags=tags_of(given.get("tags")),
        metadata=metadata_of(given.get("metadata")),
        submitted_at=now_ms(),
    )
    if entry.erased:
        raise not_found()
    return await taken(request, described(document))


def version_of(if_match: str | None) -> int | None:
    """Return the version that `If-Match` names; None if any version is accepted. Raises a 400 for an invalid ETag."""
    tag = (if_match or "*").strip()
    if tag == "*":
        return None
    digits = tag.removeprefix("W/").strip('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 17):
        raise invalid("If-Match", f"{tag} is not an ETag that this API issued")
    return int(digits)


@delete("/rag/documents/{document_id:str}", role="ingest", line="delete a document", refuses=(409, 422), accepted=True)
async def rag_document_delete(document_id: FromPath[str], request: ApiRequest) -> Response[IngestReply]:
    """Delete a document with all its chunks."""
    return await taken(request, deletion(await request.part(DocumentViews).entry(request.user.tenant, document_id)))


@get("/rag/documents/{document_id:str}/chunks", role="query", refuses=(409,))
async def rag_document_chunks(
    document_id: FromPath[str], request: ApiRequest, limit: Limit = 100, cursor: Cursor = None
) -> ChunkPage:
    """List the passages of the version that answers searches, in reading order; none if no version does."""
    return await request.part(DocumentViews).chunks(request.user.tenant, document_id, limit=limit, cursor=cursor)


@get(
    "/rag/documents/{document_id:str}/text", role="query", refuses=(422,), ok={"text/markdown": str, "text/plain": str}
)
async def rag_document_text(document_id: FromPath[str], request: ApiRequest) -> Response[str]:
    """Return the extracted text, which is Markdown or plain; `Accept: text/plain` removes the markup.

    A text of more than 4 million characters keeps it.
    """
    library = request.part(DocumentViews)
    text, text_format = await library.text(request.user.tenant, document_id)
    if text_format != "markdown":
        return Response(text, media_type="text/plain")
    wanted = request.accept.best_match(["text/markdown", "text/plain"])
    if wanted == "text/plain" and len(text) <= _MOST_PLAIN:
        return Response(await library.plain(text), media_type="text/plain")
    return Response(text, media_type="text/markdown")


def _chunk_view(payload: Payload) -> ChunkView:
    text, metadata = payload["text"], payload["metadata"]
    measured = quality(text, metadata.get("chunkType", "paragraph"))
    return ChunkView(text, public(metadata), QualityView(*(round(each, 3) for each in measured)))


def last_of(entry: Entry, submission: LogPosition | None) -> Last:
    """Return how far the submission is, or the newest one; without a place if the first stage hasn't read it yet."""
    return entry.last if submission is None else entry.end_of(submission) or entry.submitted(submission) or _UNREAD


def view_of(entry: Entry, head: Head | None, submission: LogPosition | None = None) -> DocumentView:
    """Return the document as replies show it, with the status of `submission` where one is given."""
    newest, own = entry.last, last_of(entry, submission)
    reading = entry.reading(entry.accepted.version if submission is None else own.version)
    state, state_version = state_of(entry, head)
    return like(
        DocumentView,
        entry,
        title=entry.title or (head.title if head else None),
        status=own.status,
        version=own.version,
        state=state,
        state_version=state_version,
        chunk_count=head.chunk_count if head is not None and not head.deleted else 0,
        created_at=iso(entry.created_at),
        updated_at=iso(entry.updated_at),
        error=own.error,
        code=own.code.upper() if own.code else None,
        etag=f'"{entry.accepted.version}"' if entry.accepted.version else None,
        submitted_at=iso(newest.place.time) if newest.place.time >= 0 else None,
        ended_at=iso(newest.at) if newest.status in TERMINAL else None,
        moved_to=own.moved_to.document_id if submission is not None and own.moved_to is not None else None,
        notes=reading.notes,
        note_count=reading.note_count,
    )


def state_of(entry: Entry, head: Head | None) -> tuple[State, int]:
    """Return the document's state and the version that it belongs to."""
    if head is not None:
        return ("deleted" if head.deleted else "ready"), head.version
    waiting = [each.version for each in (*entry.earlier, entry.last) if each.status not in TERMINAL]
    if waiting:
        return "accepted", max(waiting)
    if entry.last.status == "deleted":
        return "deleted", entry.last.version
    # The index was lost, and the document is being rebuilt.
    return ("failed" if entry.last.status == "failed" else "accepted"), entry.last.version


def _after(listing: Listing, entries: Sequence[Entry], cursor: ListCursor | None) -> ListCursor:
    last = listing.key(entries[-1])
    shown = tuple(entry.document_id for entry in entries if listing.key(entry) == last)
    earlier = cursor.seen if cursor and cursor.key == last else ()
    return ListCursor(listing.sort, last, earlier + shown)
