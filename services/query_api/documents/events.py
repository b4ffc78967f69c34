"""Streams the progress of a document as server-sent events, `received` to `searchable` (correctness.md, section 5)."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import msgspec
from litestar import Response
from litestar.params import FromPath, FromQuery
from litestar.response import ServerSentEvent, ServerSentEventMessage

from services.query_api.documents.detail import Step, reached
from services.query_api.documents.document_routes import DocumentViews, last_of
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import EVENT_STREAM, StreamEvent, get
from services.query_api.ingest.submissions import StatusWaiters
from shared.contracts import LogPosition, Status
from shared.errors import Unavailable
from shared.state.index import Index

KEEP_ALIVE_S: Final = 15.0  # proxies close connections that are silent for longer

LAST: Final[frozenset[Step]] = frozenset({"searchable", "deleted", "failed", "superseded"})


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
        return Progress(
            document_id=document_id,
            step=step,
            status=last.status,
            version=last.version,
            chunks_embedded=done,
            chunk_count=count,
            error=last.error,
            code=last.code.upper() if last.code else None,
        )

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
