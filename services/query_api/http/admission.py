"""Limits requests in flight, bodies in memory, their sizes, the time that a body may take to arrive, and rates.

A slow sender doesn't slow down others. A request counts as in flight once its body is complete. Of the bodies that are
still arriving, only a limited number may take longer than `MOMENT_S`.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, cast

from litestar.datastructures import Headers
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Receive, Scope, Send

from services.query_api.http.browsers import has_body
from services.query_api.http.problems import Problem, of_pipeline, too_large
from services.query_api.http.route_decorator import SMALL, Lane, RouteOptions
from services.query_api.http.stopping import Stopping
from shared.errors import Unavailable
from shared.settings import Settings

_BUCKETS: Final = 10_000  # buckets kept; the one that was unused for longest is dropped first


class TokenBuckets:
    """A token bucket per name: `most` tokens at once, refilled evenly. A bucket can go into debt."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, *, within_s: int = 60) -> None:
        """Take the tokens of a minute, or of another time; 0 means no limit."""
        self.most = most
        self._within_s = within_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and the time of that count

    def wait_s(self, name: str) -> float:
        """Return the seconds until the name has a token again; 0.0 if it has one now."""
        if not self.most:
            return 0.0
        left = self._left(name)
        return 0.0 if left >= 1 else (1 - left) * self._within_s / self.most

    def check(self, name: str, sentence: str, code: str | None = None) -> None:
        """Raise a 429 if the name has no token, with when it has one again: after the sentence, and as Retry-After."""
        if wait_s := math.ceil(self.wait_s(name)):
            raise Problem(429, f"{sentence} in {wait_s} s", code=code, headers={"Retry-After": str(wait_s)})

    def spend(self, name: str, amount: int = 1) -> None:
        """Take so many tokens, even if the bucket has fewer."""
        if not self.most:
            return
        self._buckets[name] = (self._left(name) - amount, self._clock())
        self._buckets.move_to_end(name)
        while len(self._buckets) > _BUCKETS:
            self._buckets.popitem(last=False)

    def _left(self, name: str) -> float:
        now = self._clock()
        left, since = self._buckets.get(name, (float(self.most), now))
        return min(self.most, left + (now - since) * self.most / self._within_s)


class AnswerRate(TokenBuckets):
    """The answers of each API key."""

    def take(self, key: str) -> None:
        """Count one answer, or the related questions of one search. Raises a 429 if the key has used up its answers."""
        sentence = (
            f"this API key has asked for {self.most} answers within a minute, the most that SLUICE_CHAT_RATE allows; "
            "ask again"
        )
        self.check(key, sentence, "TOO_MANY_ANSWERS")
        self.spend(key)


MOMENT_S: Final = 5.0  # a body that takes longer counts as slow
SLOWEST: Final = 10_000  # bytes per second, the least rate after `SLUICE_BODY_TIMEOUT`
BODIES: Final = 8  # number of bodies of the largest size that may be in memory at once
COME_AGAIN_S: Final = 2


@dataclass
class RequestLane:
    """A counter of requests or bytes with a limit, of which each tenant may use a share."""

    limit: int
    what: str
    setting: str
    share: Callable[[], int]  # returns a tenant's share of the limit in percent
    _of_tenant: Counter[str] = field(default_factory=Counter)

    @property
    def taken(self) -> int:
        """Return the current count of all tenants."""
        return self._of_tenant.total()

    def take(self, tenant: str, size: int = 1, *, least: int = 1) -> None:
        """Add `size` to the count. The tenant's share is at least `least`, the size of one large request.

        Raises:
            Problem: 429, the limit or the share would be exceeded; nothing was counted.
        """
        own, share = self._of_tenant[tenant] + size, max(self.limit * self.share() // 100, least)
        if self._of_tenant.total() + size > self.limit:
            full = f"{self.limit} {self.what} at once, the most that {self.setting} allows"
        elif own > share:
            full = f"of this tenant, {own - size} {self.what} at once, and {share} is its share (SLUICE_TENANT_SHARE)"
        else:
            self._of_tenant[tenant] = own
            return
        again = f"{full}; this request was not accepted, send it again in {COME_AGAIN_S} s"
        raise Problem(429, again, headers={"Retry-After": str(COME_AGAIN_S)})

    def give(self, tenant: str, size: int = 1) -> None:
        """Subtract `size` from the count."""
        self._of_tenant[tenant] -= size
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]


class AdmissionLimits:
    """The lanes of one API, and the rates of its tenants."""

    def __init__(self, settings: Settings, stopping: Stopping, *, several: Callable[[], bool] = lambda: False) -> None:
        """Take the limits; `several` says whether there is more than one tenant, so that each has a share."""

        def lane(limit: int, what: str, setting: str) -> RequestLane:
            return RequestLane(limit, what, setting, lambda: settings.tenant_share if several() else 100)

        # Several, so that no kind of request starves another.
        kinds: dict[Lane, str] = {
            "bring": "documents are being sent",
            "ask": "requests are being answered",
            "watch": "documents are being watched",
        }
        self.lanes = {kind: lane(settings.max_requests, what, "SLUICE_MAX_REQUESTS") for kind, what in kinds.items()}
        self.slow = lane(settings.max_slow, "slow request bodies are arriving", "SLUICE_MAX_SLOW")
        self.bodies = lane(BODIES * settings.max_body, "bytes of request bodies are in memory", "SLUICE_MAX_BODY")
        self.settings, self.stopping = settings, stopping
        self.documents = TokenBuckets(settings.tenant_documents)
        self.bytes = TokenBuckets(settings.tenant_bytes)

    def check_rates(self, tenant: str) -> None:
        """Raise a 429 if the tenant has sent too many documents or bytes."""
        rates = ((self.documents, "documents", "DOCUMENTS"), (self.bytes, "bytes", "BYTES"))
        for buckets, what, setting in rates:
            allowed = f"{buckets.most} {what} a minute that SLUICE_TENANT_{setting} allows"
            refused = "this request was not accepted, send it again"
            buckets.check(tenant, f"this tenant has sent more than the {allowed}; {refused}")


class Admission(ASGIMiddleware):
    """Middleware that enforces the limits. Requests of open routes count in no lane, so that probes are answered."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request.

        Raises:
            Problem: 413, the body is too large; 429, another limit is exceeded.
        """
        visit = _Visit(cast("HTTPScope", scope), receive, self._limits)  # there are no sockets here
        try:
            visit.enter()
            await next_app(scope, visit.receive, send)
        finally:
            visit.leave()


class _Visit:
    """One request, and what it has taken of the limits."""

    def __init__(self, scope: HTTPScope, receive: Receive, limits: AdmissionLimits) -> None:
        self._receive, self._limits = receive, limits
        user, opt = scope.get("user"), cast("RouteOptions", scope["route_handler"].opt)
        self._tenant: str = user.tenant if user is not None else ""
        self._brings = opt.get("lane") == "bring"
        self._lane = None if opt.get("open") else limits.lanes[opt.get("lane", "ask")]
        self._holds = opt.get("holds")
        takes = opt.get("takes", SMALL).bytes
        named = {"SLUICE_MAX_BODY": limits.settings.max_body, "SLUICE_MAX_BATCH": limits.settings.max_batch}
        self._most = named[takes] if isinstance(takes, str) else min(takes, limits.settings.max_body)
        headers = Headers.from_scope(scope)
        self._announced = headers.get("content-length", "")
        self._whole = not has_body(headers)
        self._taken: list[RequestLane] = []
        self._is_slow = False
        self._held = self._received = 0
        self._waited_s = 0.0

    def enter(self) -> None:
        """Admit the request. A request with a body counts in its lane only when the body is complete.

        Raises:
            Problem: 413, the body is announced as too large; 429, its lane is full. The body isn't read.
        """
        if self._brings:
            self._limits.check_rates(self._tenant)
        if self._announced.isdecimal():
            self._check(int(self._announced))
        self._take(self._lane)
        if not self._whole:
            self._give()

    async def receive(self) -> HTTPReceiveMessage:
        """Return the next piece of the body.

        Raises:
            Problem: 408, the body arrives too slowly; 413, it is too large; 429, another limit is exceeded; 503, the
                server is stopping.
        """
        if self._whole:
            return cast("HTTPReceiveMessage", await self._receive())
        try:
            message = await self._next()
        except Unavailable as error:
            raise of_pipeline(error) from None
        if message["type"] != "http.request":
            self._whole = True  # nothing more comes
            return message
        self._received += len(message["body"])
        self._check(self._received)
        self._whole = not message.get("more_body", False)
        held = self._received if self._holds is None else min(self._received, self._holds)
        self._limits.bytes.spend(self._tenant, len(message["body"]))
        least = self._limits.settings.max_body if self._holds is None else self._holds
        self._limits.bodies.take(self._tenant, held - self._held, least=least)
        self._held = held
        if self._whole:
            self._give()
            self._take(self._lane)
        return message

    def leave(self) -> None:
        """Give back everything that this request has taken of the limits."""
        self._give()
        self._limits.bodies.give(self._tenant, self._held)
        self._held = 0

    def _check(self, size: int) -> None:
        if size > self._most:
            raise too_large(f"the body is larger than {self._most} bytes, the most that this route reads", self._most)

    def _take(self, lane: RequestLane | None) -> None:
        if lane is not None:
            lane.take(self._tenant)
            self._taken.append(lane)

    def _give(self) -> None:
        while self._taken:
            self._taken.pop().give(self._tenant)

    async def _next(self) -> HTTPReceiveMessage:
        """Return the next message. Only time spent waiting for the sender counts."""
        if not self._is_slow:
            with suppress(TimeoutError):
                return await self._within(MOMENT_S)
            self._take(self._limits.slow)
            self._is_slow = True
        try:
            return await self._within(self._limits.settings.body_timeout + self._received / SLOWEST)
        except TimeoutError:
            raise Problem(
                408,
                f"the body came too slowly: {self._received} bytes in {self._waited_s:.0f} s",
                headers={"Connection": "close"},
            ) from None

    async def _within(self, in_all_s: float) -> HTTPReceiveMessage:
        loop, limited = asyncio.get_running_loop(), self._limits.stopping.limited
        began = loop.time()
        try:
            with suppress(TimeoutError):
                return cast("HTTPReceiveMessage", await limited(self._receive(), in_all_s - self._waited_s))
            # A message that is available now arrived in time.
            return cast("HTTPReceiveMessage", await limited(self._receive(), 0.0))
        finally:
            self._waited_s += loop.time() - began
