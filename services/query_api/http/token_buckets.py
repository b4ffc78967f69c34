"""Limits what each key or tenant may use per minute."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from services.query_api.http.problems import Problem

_MOST: Final = 10_000  # buckets kept; the one that was unused for longest is dropped first


class TokenBuckets:
    """A token bucket per name: `per_minute` tokens at once, refilled evenly. A bucket can go into debt."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the rate; 0 means no limit."""
        self.per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and the time of that count

    def wait_s(self, name: str) -> float:
        """Return the seconds until the name has a token again; 0.0 if it has one now."""
        if not self.per_minute:
            return 0.0
        left = self._left(name)
        return 0.0 if left >= 1 else (1 - left) * 60 / self.per_minute

    def spend(self, name: str, amount: int = 1) -> None:
        """Take so many tokens, even if the bucket has fewer."""
        if not self.per_minute:
            return
        self._buckets[name] = (self._left(name) - amount, self._clock())
        self._buckets.move_to_end(name)
        while len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)

    def _left(self, name: str) -> float:
        now = self._clock()
        left, since = self._buckets.get(name, (float(self.per_minute), now))
        return min(self.per_minute, left + (now - since) * self.per_minute / 60)


class AnswerRate:
    """A token bucket per key: `per_minute` answers at once, then one every 60 / `per_minute` seconds."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the rate; 0 means no limit."""
        self._buckets = TokenBuckets(per_minute, clock)

    def take(self, key: str) -> None:
        """Count one answer, or the related questions of one search.

        Raises:
            Problem: 429, the key has used up its answers; Retry-After says when to ask again.
        """
        if not (left_s := self._buckets.wait_s(key)):
            self._buckets.spend(key)
            return
        wait_s = math.ceil(left_s)
        raise Problem(
            429,
            f"this API key has asked for {self._buckets.per_minute} answers within a minute, the most that "
            f"SLUICE_CHAT_RATE allows; ask again in {wait_s} s",
            code="TOO_MANY_ANSWERS",
            headers={"Retry-After": str(wait_s)},
        )
