"""The feed of changes: every end of a submission of the caller's tenant, so that other systems can mirror the index.

The topic documents.status is the feed, and a cursor is an offset of its one partition (ADR 0030), signed and
encrypted. It has the number of the log's moves, because offsets of an older log mean nothing (ADR 0012).
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from aiokafka import TopicPartition
from litestar import Response
from litestar.params import FromQuery, QueryParameter
from litestar.response import ServerSentEventMessage, Stream

from services.query_api.documents.detail import KEEP_ALIVE_S
from services.query_api.http.opaque_tokens import OffsetCursor, Signer
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import EVENT_STREAM, JSON, UNBUFFERED, StreamEvent, get
from services.query_api.ingest.submissions import LATEST, StatusWaiters, any_of
from shared.contracts import TERMINAL, NoteCode, Status, StatusNotice, decode, like
from shared.errors import Rejected
from shared.log import Log
from shared.log.read import reading
from shared.topics import STATUS

MOST: Final = 1000  # changes per page
READ: Final = 10_000  # notices, of all tenants, read per page
LONGEST_S: Final = 60
_AT_ONCE: Final = 100  # changes that a stream holds in memory
_TOGETHER_S: Final = 0.25
_FEED: Final = TopicPartition(STATUS, 0)

Wait = Annotated[float, QueryParameter(ge=0, le=LONGEST_S, description="Seconds to wait for the first change.")]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST, description=f"How many changes, 1 to {MOST}.")]


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A submission of a document has ended."""

    document_id: str
    status: Status
    version: int
    submission: str  # the submission's token, as in the reply to it
    note_codes: tuple[NoteCode, ...] = ()  # of what could not be read of the document, each once
    note_count: int = 0


class ChangesPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes in order, and the cursor after them."""

    items: list[Change]
    cursor: str


class FeedCursor(OffsetCursor, frozen=True, array_like=True):
    """An offset of the feed, on a log with a number of moves."""

    moves: int = 0


@dataclass(frozen=True, eq=False)
class ChangeFeed:
    """Reads the feed. Raises Unavailable when the log is away."""

    log: Log
    notices: StatusWaiters
    signer: Signer
    keep_alive_s: float = KEEP_ALIVE_S

    async def end(self) -> int:
        """Return the cursor after the newest change."""
        return (await self.log.end_offsets(STATUS))[_FEED]

    async def at(self, tenant: str, cursor: str) -> int:
        """Return the offset of the tenant's cursor.

        Raises:
            Problem: 400, it isn't a cursor; 410, the changes after it are no longer kept.
        """
        found = self.signer.opened(cursor, FeedCursor, tenant=tenant)
        start = (await self.log.offsets_since(STATUS, 0))[_FEED]
        if found.moves != self.log.moves or not start <= found.offset <= await self.end():
            raise Problem(
                410,
                "the changes after this cursor are no longer kept: take a new cursor from GET /rag/changes, list "
                "GET /rag/documents, then follow that cursor",
                code="CURSOR_GONE",
            )
        return found.offset

    def cursor(self, tenant: str, at: int) -> str:
        """Return the tenant's cursor of an offset, from which `at` returns the offset."""
        return self.signer.sign(FeedCursor(at, moves=self.log.moves), tenant=tenant)

    async def page(self, tenant: str, cursor: int, limit: int) -> "_Page":
        """Return the tenant's changes after the cursor; an empty page may still move the cursor."""
        end = min(await self.end(), cursor + READ)
        page = _Page([], cursor)
        if cursor < end:
            async with reading(self.log, _FEED) as reader, aclosing(reader.between(cursor, end)) as records:
                async for record in records:
                    with suppress(Rejected):  # written by a foreign producer
                        page.add(record.offset, decode(record.value, StatusNotice), tenant)
                    if len(page.items) == limit:
                        return page
        page.after = max(page.after, end)
        return page

    def _heard(self, tenant: str, cursor: int, limit: int) -> "_Page | None":
        """Return a page of what this process has heard, without a read of the log; None if that begins later."""
        notices, page = self.notices.after(cursor), _Page([], cursor)
        for offset, notice in notices or ():
            page.add(offset, notice, tenant)
            if len(page.items) == limit:
                break
        return None if notices is None else page

    async def next_page(self, tenant: str, cursor: int, *, limit: int, wait_s: float) -> "_Page":
        """Return the first non-empty page after the cursor, or an empty one when the time is up."""
        page = _Page([], cursor)

        async def more() -> _Page | None:
            nonlocal page
            heard = self._heard(tenant, page.after, limit)
            if heard is None or (not heard.items and await self.end() > heard.after):  # a notice may be late
                heard = await self.page(tenant, page.after, limit)
            page = heard
            return page if page.items else None

        if await self.notices.until(any_of(tenant), more, wait_s) is None and not self.notices.closed:
            page = await self.page(tenant, page.after, limit)
        return page

    async def follow(self, tenant: str, cursor: int) -> AsyncGenerator[bytes, None]:
        """Yield events, one a change, whose ids are the cursors after it; comments in between keep the connection open.

        Changes that come within `_TOGETHER_S` are told together: hundreds of followers would get each by itself.
        """
        while not self.notices.closed:
            page = await self.next_page(tenant, cursor, limit=_AT_ONCE, wait_s=self.keep_alive_s)
            yield b"".join(_event(self, *each) for each in page.items) or b": keep-alive\r\n\r\n"
            cursor = page.after
            if len(page.items) < _AT_ONCE:
                await asyncio.sleep(_TOGETHER_S)

    def change(self, notice: StatusNotice) -> Change:
        """Return what the caller is told of the notice."""
        return like(Change, notice, submission=self.signer.submission(notice.tenant, notice.place))


@dataclass
class _Page:
    items: list[tuple[int, StatusNotice]]  # each with the offset after it
    after: int  # offset after them, and after what concerns others

    def add(self, offset: int, notice: StatusNotice, tenant: str) -> None:
        self.after = offset + 1
        if notice.tenant == tenant and notice.status in TERMINAL:
            self.items.append((self.after, notice))


@lru_cache(maxsize=LATEST)  # made once for all who follow
def _event(feed: ChangeFeed, after: int, notice: StatusNotice) -> bytes:
    data, id_ = msgspec.json.encode(feed.change(notice)), feed.cursor(notice.tenant, after)
    return ServerSentEventMessage(event=notice.status, id=id_, data=data).encode()


@get(
    "/rag/changes",
    role="query",
    lane="watch",
    line="follow every change of your documents",
    refuses=(410,),
    ok={JSON: ChangesPage, EVENT_STREAM: StreamEvent},
)
async def rag_changes(
    request: ApiRequest, cursor: FromQuery[str | None] = None, *, wait: Wait = 0, limit: Limit = 100
) -> Response[ChangesPage] | Stream:
    """Return the outcomes of your submissions after `cursor`, each at least once.

    Without a cursor there are no items, only the newest cursor. `wait` waits for the first change. With `Accept:
    text/event-stream` the changes come as server-sent events, whose ids are cursors. After a 410, start over.
    """
    feed = request.part(ChangeFeed)
    tenant, given = request.user.tenant, request.headers.get("last-event-id") or cursor
    at = await feed.end() if given is None else await feed.at(tenant, given)
    if "text/event-stream" in request.headers.get("accept", ""):
        return Stream(feed.follow(tenant, at), media_type=EVENT_STREAM, headers=UNBUFFERED)
    page = _Page([], at) if given is None else await feed.next_page(tenant, at, limit=limit, wait_s=wait)
    items = [feed.change(notice) for _, notice in page.items]
    return Response(ChangesPage(items=items, cursor=feed.cursor(tenant, page.after)))
