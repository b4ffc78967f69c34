"""Thumbs under answers: `POST /rag/feedback` keeps one, `GET /ops/feedback` shows a tenant's to its admins.

The topic answers.feedback has one record an answer, for 90 days; a later thumb replaces it. docs/answers.md, Thumbs
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Final, Literal

import msgspec
from aiokafka import TopicPartition
from litestar.params import FromQuery, JSONBody, QueryParameter

from services.query_api.http.admission import TokenBuckets
from services.query_api.http.auth import Caller
from services.query_api.http.problems import time_of
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get, post
from shared.contracts import AnswerSource, Feedback, decode, encode, like
from shared.errors import Rejected
from shared.log import Log, Publish
from shared.log.read import Span, records
from shared.state.ledger import Ledger
from shared.times import LoopTurns, iso
from shared.topics import FEEDBACK

MOST: Final = 1000  # thumbs of a reply
PER_HOUR: Final = 60  # thumbs of an API key, so that it adds at most 130,000 in 90 days
_FEED: Final = TopicPartition(FEEDBACK, 0)
Words = Annotated[str, msgspec.Meta(max_length=1000)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST, description=f"How many thumbs, 1 to {MOST}.")]


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What somebody thinks of an answer."""

    request: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # the answer's X-Request-Id
    thumb: Literal["up", "down"]
    reason: Words = ""
    model: Name = ""
    sources: Annotated[list[AnswerSource], msgspec.Meta(max_length=100)] = []  # the passages it was given
    question: Words = ""  # kept only if SLUICE_FEEDBACK_QUESTIONS names the tenant


class FeedbackReply(msgspec.Struct, frozen=True, rename="camel"):
    """What was kept beside the thumb."""

    question_kept: bool


class FeedbackView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A thumb under an answer."""

    time: str
    request: str
    thumb: str
    model: str = ""
    reason: str = ""
    question: str = ""
    sources: tuple[AnswerSource, ...] = ()


class FeedbackList(msgspec.Struct, frozen=True):
    """Thumbs, the newest first."""

    items: list[FeedbackView]


class Thumbs:
    """Keeps and reads thumbs. Raises Unavailable when the log or the store is away."""

    def __init__(self, log_: Log, publish: Publish, ledger: Ledger, questions_of: str) -> None:
        """Take the parts, and the tenants whose questions are kept: names with commas between, or *."""
        self._log, self._publish, self._ledger = log_, publish, ledger
        self._questions_of = frozenset(each.strip() for each in questions_of.split(",") if each.strip())
        self._rate = TokenBuckets(PER_HOUR, within_s=3600)

    def check_rate(self, caller: Caller) -> None:
        """Count a thumb of the caller. Raises a 429 above `PER_HOUR`: nobody can fill the log with them."""
        whose, whom = caller.key or caller.tenant, "an API key" if caller.key else "all callers without an API key"
        self._rate.check(whose, f"at most {PER_HOUR} thumbs an hour are kept of {whom}; send it again")
        self._rate.spend(whose)

    async def keep(self, tenant: str, given: FeedbackBody) -> bool:
        """Keep the thumb, and return whether its question was kept. Sources that aren't the tenant's are left out."""
        asked = bool(given.question) and not self._questions_of.isdisjoint((tenant, "*"))
        sources = await self._standing(tenant, given.sources)
        kept = like(
            Feedback,
            given,
            time=int(time.time() * 1000),
            tenant=tenant,
            sources=sources,
            reason=given.reason.strip(),
            question=given.question if asked else "",
        )
        key = f"{tenant}/{given.request}".encode()
        await self._publish(FEEDBACK, encode(kept), key=key)
        # An erasure reads the topic once the ledger says so: either it finds this record, or this finds the erasure.
        if await self._standing(tenant, sources) != sources:
            await self._publish(FEEDBACK, None, key=key)
        return asked

    async def newest(self, tenant: str, limit: int, since: int = 0, most: int = 10_000) -> list[Feedback]:
        """Return at most so many of the tenant's thumbs since a time (ms since 1970), the newest first.

        They are among the last `most` records of all tenants.
        """
        start, end = await _span(self._log, since)
        found = dict[bytes, Feedback | None]()
        async with aclosing(_every(self._log, (max(start, end - most), end), (tenant,))) as every:
            async for key, feedback in every:
                found.pop(key, None)  # of each key, only the last counts
                found[key] = feedback
        return [each for each in reversed(found.values()) if each is not None][:limit]

    async def _standing(self, tenant: str, sources: Sequence[AnswerSource]) -> tuple[AnswerSource, ...]:
        """Return the sources whose documents are the tenant's, and aren't erased."""
        ids = list(dict.fromkeys(each.document_id for each in sources))
        entries = await asyncio.gather(*(self._ledger.of_tenant(tenant, id_) for id_ in ids))
        there = {entry.document_id for entry in entries if entry is not None and not entry.erased}
        return tuple(each for each in sources if each.document_id in there)


async def forget(
    log_: Log, publish: Publish, tenants: Collection[str], gone: Callable[[Feedback], bool] = lambda _: True
) -> None:
    """Erase those thumbs of the tenants for which `gone` returns True. Raises Unavailable when the log is away."""
    async with aclosing(_every(log_, await _span(log_), tenants)) as every:
        async for key, feedback in every:
            if feedback is not None and gone(feedback):
                await publish(FEEDBACK, None, key=key)


async def _span(log_: Log, since: int = 0) -> Span:
    return (await log_.offsets_since(FEEDBACK, since))[_FEED], (await log_.end_offsets(FEEDBACK))[_FEED]


async def _every(log_: Log, span: Span, tenants: Collection[str]) -> AsyncGenerator[tuple[bytes, Feedback | None]]:
    """Yield key and thumb of each record of the tenants; None: it was erased, or can't be read."""
    theirs, turns = tuple(f"{tenant}/".encode() for tenant in tenants), LoopTurns()
    async with aclosing(records(log_, {_FEED: span})) as there:
        async for record in there:
            await turns.give()
            if (key := record.key or b"").startswith(theirs):
                feedback = None
                with suppress(Rejected):  # a foreign producer wrote it
                    feedback = None if record.value is None else decode(record.value, Feedback)
                yield key, feedback if feedback is not None and feedback.tenant in tenants else None


@post("/rag/feedback", role="query", reads=False, line="say what you think of an answer: request, thumb, reason")
async def rag_feedback(data: JSONBody[FeedbackBody], request: ApiRequest) -> FeedbackReply:
    """Keep a thumb under an answer, and why, for the tenant's admins. A later one for the same answer replaces it."""
    thumbs = request.part(Thumbs)
    thumbs.check_rate(request.user)
    return FeedbackReply(await thumbs.keep(request.user.tenant, data))


@get("/ops/feedback", role="admin", line="show the thumbs under answers")
async def ops_feedback(request: ApiRequest, since: FromQuery[str | None] = None, *, limit: Limit = 100) -> FeedbackList:
    """Show the thumbs under answers of the caller's tenant, the newest first. `since` is an ISO 8601 time.

    Only the last 10,000 thumbs of all tenants are looked at.
    """
    found = await request.part(Thumbs).newest(request.user.tenant, limit, time_of(since, "since") or 0)
    return FeedbackList([like(FeedbackView, each, time=iso(each.time)) for each in found])
