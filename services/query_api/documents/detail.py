"""One document with all its details, and its progress as server-sent events (correctness.md, section 5)."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from litestar import Response
from litestar.params import FromPath, FromQuery
from litestar.response import ServerSentEvent, ServerSentEventMessage

from services.query_api.documents.document_routes import DocumentView, DocumentViews, last_of, view_of
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import EVENT_STREAM, StreamEvent, get
from services.query_api.ingest.submissions import StatusWaiters
from shared.contracts import TERMINAL, Given, LogPosition, Status, like
from shared.errors import Unavailable
from shared.state.callbacks import MOST_SHOWN, Callback, Callbacks, shown_key
from shared.state.index import Index
from shared.state.ledger import Entry, Last
from shared.times import iso

KEEP_ALIVE_S: Final = 15.0  # proxies close connections that are silent for longer
READ_PERCENT: Final = 10  # the progress once the text is extracted; embedding is the rest
_OF_DOCUMENT: Final = frozenset({"title", "tags", "url", "etag"})
# What a sender that may not read documents sees: of its submission, and of the document that has it.
_OF_SUBMISSION: Final = frozenset({"document_id", "status", "progress", "stages", "error", "code", "submitted_at"})
_OF_SENT: Final = _OF_SUBMISSION | set(DocumentView.__struct_fields__) - _OF_DOCUMENT
_NOTHING: Final = {
    "source": "", "path": "", "title": None, "version": 0, "state": "accepted", "state_version": 0, "chunk_count": 0,
    "tags": (), "created_at": "", "updated_at": "",
}  # fmt: skip
Step = Literal["received", "extracted", "embedding", "searchable", "deleted", "failed", "superseded"]
LAST: Final[frozenset[Step]] = frozenset({"searchable", "deleted", "failed", "superseded"})
_LAST_STEP: Final[dict[Status, Step]] = {"deleted": "deleted", "failed": "failed", "superseded": "superseded"}
_LAST_STAGE: Final = {"created": "searchable", "updated": "searchable"}  # by status


class StageTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the document passed a stage, and how long after the previous one."""

    stage: str  # received, extracted, chunked, then searchable, unchanged, deleted or failed
    at: str | None = None  # None: of a stage that was passed, it becomes known at the end
    seconds: float | None = None


class CallbackView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A callback: `waiting` for the end of its submission, `sending`, `delivered`, or `failed`."""

    submission: str  # also the `webhook-id` of its requests
    url: str  # without its query, which may hold a secret of the receiver
    state: str
    tries: int = 0
    error: str | None = None  # why the last try failed
    next_at: str | None = None  # of the next try
    ended_at: str | None = None  # when it was delivered or given up


class DocumentDetail(DocumentView, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A document with the fields that lists leave out. Fields about the file describe the accepted version."""

    progress: int  # percent, of the newest submission
    chunks_embedded: int | None = None  # set while the document is embedded
    stages: tuple[StageTime, ...] = ()
    callbacks: tuple[CallbackView, ...] = ()  # newest submission first
    description: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)  # as it was sent
    hash: str | None = None  # as it was sent; it has no effect
    sha256: str | None = None  # SHA-256 of the body as received
    bytes: int | None = None  # size of that body
    filename: str | None = None
    media_type: str | None = None  # as it was sent
    document_type: str | None = None
    language: str | None = None
    page_count: int | None = None
    file: dict[str, Any] = msgspec.field(default_factory=dict)  # what the file says about itself: author, created, …
    chunk_size: int | None = None  # as it was sent; None: the index's own size
    chunk_overlap: int | None = None


async def detail_of(
    request: ApiRequest, document_id: str, token: str | None = None, *, reads: bool = True
) -> DocumentDetail:
    """Return the document, with the status of the submission with the token where one is given.

    Without `reads`, only what its sender knows: a token doesn't say which document it is of, so a document that doesn't
    have the submission shows its status alone.

    Raises:
        Problem: 400, there is no such token; 404.
    """
    signer, index, tenant = request.part(Signer), request.part(Index), request.user.tenant
    submission = None if token is None else signer.submitted_at(token, field="submission", tenant=tenant)
    entry = await request.part(DocumentViews).entry(tenant, document_id)
    shown = view_of(entry, await index.head(document_id), submission)
    last = last_of(entry, submission)
    embedding = (await reached(index, entry, last))[1]
    fields = msgspec.structs.asdict(shown) | _of_body(entry) | _progress(last, embedding)
    fields["stages"] = tuple(_stages(last, chunked=embedding is not None))
    if not reads:
        own = _OF_SUBMISSION if submission is None or entry.submitted(submission) is None else _OF_SENT
        return DocumentDetail(**_NOTHING | {name: fields[name] for name in own})
    called = (await request.part(Callbacks).of_document(document_id))[:MOST_SHOWN]
    views = tuple(_callback_view(each, signer.submission(tenant, each.place)) for each in called)
    return DocumentDetail(**fields, callbacks=views)


async def reached(index: Index, entry: Entry, last: Last) -> tuple[Step, tuple[int, int] | None]:
    """Return the step that the submission has reached; while it is embedded, also how many chunks are, and of how many.

    The number of chunks is in each chunk's point. Before the first point, only the first stage's progress is known.
    """
    if last.status in TERMINAL:
        return _LAST_STEP.get(last.status, "searchable"), None
    deletes = entry.accepted.version == last.version and entry.accepted.outcome == "deleted"
    if last.version == 0 or deletes:  # nothing is read or embedded for a deletion
        return "received", None
    first = await index.chunks_page(entry.document_id, last.version, start=0, limit=1)
    if not first:
        return "extracted", None
    done = await index.version_points(entry.document_id, last.version)
    return "embedding", (done, int(first[0]["metadata"]["totalChunks"]))


def _progress(last: Last, embedding: tuple[int, int] | None) -> dict[str, Any]:
    if embedding is None:
        return {"progress": 100 if last.status in TERMINAL else READ_PERCENT if last.version else 0}
    done, count = embedding
    percent = READ_PERCENT + (99 - READ_PERCENT) * done // max(count, 1)
    return {"progress": min(percent, 99), "chunks_embedded": done, "chunk_count": count}


def _of_body(entry: Entry) -> dict[str, Any]:
    accepted = entry.accepted
    given, reading, body = accepted.given or Given(), accepted.reading, accepted.body
    fields: dict[str, Any] = {"metadata": given.metadata, "description": given.description, "hash": given.hash}
    if body is not None:
        fields |= {"sha256": body.sha256, "bytes": body.size}
    if reading is not None:
        extracted = reading.extracted
        fields |= {
            "description": given.description or extracted.get("description"),
            "filename": reading.filename,
            "media_type": reading.media_type,
            "document_type": extracted.get("document_type"),
            "language": extracted.get("language"),
            "file": extracted.get("file", {}),
            "page_count": len(extracted.get("pages", ())) or None,
            "chunk_size": reading.chunk_size,
            "chunk_overlap": reading.chunk_overlap,
        }
    return fields


def _stages(last: Last, *, chunked: bool) -> Iterator[StageTime]:
    """Yield the time of each stage that the submission has passed. Times are the log's, except for the last stage."""
    if last.place.time < 0:
        return
    passed = [("received", last.place.time), ("extracted", last.extracted_at), ("chunked", last.chunked_at)]
    if last.status not in TERMINAL:
        yield StageTime("received", iso(last.place.time))
        yield from (StageTime(stage) for stage, done in (("extracted", last.version > 0), ("chunked", chunked)) if done)
        return
    if last.status != "superseded":
        passed.append((_LAST_STAGE.get(last.status, last.status), last.at))
    before: int | None = None
    for stage, at in passed:
        if at:
            yield StageTime(stage, iso(at), None if before is None else max(0, at - before) / 1000)
            before = at


def _callback_view(callback: Callback, token: str) -> CallbackView:
    at = callback.next if callback.state == "sending" else None
    return like(
        CallbackView,
        callback,
        submission=token,
        url=callback.url.partition("?")[0],
        next_at=None if at is None else iso(at),
        ended_at=None if callback.over is None else iso(callback.over),
    )


@get(
    "/rag/documents/{document_id:str}",
    role=("query", "ingest"),
    line="show a document; /chunks, /text and /original show its content, /events its progress",
    headers=("ETag",),
)
async def rag_document(
    document_id: FromPath[str], request: ApiRequest, submission: FromQuery[str | None] = None
) -> Response[DocumentDetail]:
    """Show a document: the version that answers searches, and the status of its newest submission.

    With `submission`, from the `Location` of a 202, `status`, `version`, `progress`, `stages`, `error` and `code`
    describe that submission. A key with the role `ingest` alone must give it, and sees nothing else of the document.
    """
    reads = request.user.may("query")
    if not reads and submission is None:
        sentence = "this API key lacks the role query; with ingest, ask as the Location of the 202 does"
        raise Problem(403, sentence, details={"role": "query"})
    shown = await detail_of(request, document_id, submission, reads=reads)
    return Response(shown, headers={"ETag": shown.etag} if shown.etag else {})


class CallbackKey(msgspec.Struct, frozen=True):
    """The key in the form that libraries of Standard Webhooks take."""

    key: str  # whsec_ and base64


@get("/rag/callback-key", role="ingest", line="show the key that verifies callbacks", needs_parts=False)
async def rag_callback_key(request: ApiRequest) -> CallbackKey:
    """Show the key that signs the callbacks of the caller's tenant, to verify them with (docs/callbacks.md)."""
    return CallbackKey(shown_key(request.part(Signer).callback_key(request.user.tenant)))


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The progress of a submission."""

    document_id: str
    step: Step
    status: Status
    version: int
    chunks_embedded: int | None = None
    chunk_count: int | None = None
    error: str | None = None
    code: str | None = None

    @property
    def mark(self) -> str:
        """Return a string that differs from state to state."""
        return f"{self.step}-{self.version}-{self.chunks_embedded or 0}"


@dataclass(frozen=True)
class ProgressTracker:
    """Reads the progress of documents."""

    library: DocumentViews
    index: Index
    notices: StatusWaiters
    keep_alive_s: float = KEEP_ALIVE_S

    async def progress(self, tenant: str, document_id: str, place: LogPosition | None) -> Progress:
        """Return the progress of the document's submission at `place`, or of its newest one.

        Raises:
            Problem: 404. Unavailable: the store is away.
        """
        entry = await self.library.entry(tenant, document_id)
        last = last_of(entry, place)
        step, embedding = await reached(self.index, entry, last)
        done, count = embedding or (None, None)
        if step == "searchable" and (count := last.chunk_count) is None:
            count = (await self.library.view(tenant, document_id)).chunk_count
        code = last.code.upper() if last.code else None
        more = {"document_id": document_id, "step": step, "chunks_embedded": done, "chunk_count": count, "code": code}
        return like(Progress, last, **more)

    async def watch(
        self, tenant: str, document_id: str, place: LogPosition | None, seen: str
    ) -> AsyncGenerator[ServerSentEventMessage, None]:
        """Yield an event per state after the one marked `seen`, with comments in between; end after the last state."""

        async def changed() -> Progress | None:
            try:
                now = await self.progress(tenant, document_id, place)
            except Unavailable:
                return None  # the log has the record; the next look asks the store again
            return now if now.mark != seen else None

        while not self.notices.closed:
            now = await self.notices.until(document_id, changed, self.keep_alive_s)
            if now is None:
                yield ServerSentEventMessage(data=None, comment="keep-alive")
                continue
            seen = now.mark
            yield ServerSentEventMessage(event=now.step, id=seen, data=msgspec.json.encode(now))
            if now.step in LAST:
                return


@get(
    "/rag/documents/{document_id:str}/events", role="query", lane="watch", ok={EVENT_STREAM: StreamEvent}, nothing=True
)
async def rag_document_events(
    document_id: FromPath[str], request: ApiRequest, since: FromQuery[str | None] = None
) -> ServerSentEvent | Response[None]:
    """Stream a document's progress: `received`, `extracted`, `embedding`, then `searchable`, `deleted` or `failed`.

    `since` names a submission, as the `Link` of a 202 has it; without it, the newest known submission is watched. The
    stream ends after the last step. A client that reconnects then gets 204, so that it stops reconnecting.
    """
    tracker = request.part(ProgressTracker)
    tenant, seen = request.user.tenant, request.headers.get("last-event-id", "")
    at = None if since is None else request.part(Signer).submitted_at(since, field="since", tenant=tenant)
    now = await tracker.progress(tenant, document_id, at)
    if now.step in LAST and now.mark == seen:
        return Response(None, status_code=204)
    return ServerSentEvent(tracker.watch(tenant, document_id, at, seen))
