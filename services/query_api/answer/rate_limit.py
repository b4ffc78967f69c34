"""How many answers a key may ask for in a minute."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from services.query_api.http.problems import Problem

STATE: Final = "answer_rate"  # of the app, where the guard finds its `AnswerRate`
_MOST_KEYS: Final = 10_000  # remembered; who asked least recently is forgotten first


class AnswerRate:
    """A token bucket for each key: `per_minute` at once, then one every 60 / `per_minute` seconds."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the rate; 0 is no limit."""
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when that was

    def take(self, key: str) -> None:
        """Count one answer.

        Raises:
            Problem: 429, the key has no answer left; Retry-After says when it has.
        """
        if not self._per_minute:
            return
        now = self._clock()
        left, since = self._buckets.pop(key, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - since) * self._per_minute / 60)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait_s = math.ceil((1 - left) * 60 / self._per_minute)
            raise Problem(
                429,
                f"this API key has asked for {self._per_minute} answers within a minute, the most that "
                f"SLUICE_CHAT_RATE allows; ask again in {wait_s} s",
                code="TOO_MANY_ANSWERS",
                headers={"Retry-After": str(wait_s)},
            )


def within_rate(connection: ASGIConnection, _: BaseRouteHandler) -> None:  # type: ignore[type-arg]  # the framework's own signature
    """Guard a route that answers: it counts for the caller's key."""
    rate: AnswerRate = connection.app.state[STATE]
    rate.take(connection.user.key)
