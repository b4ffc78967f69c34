"""Limits how often each API key may have a language model called in a minute: for answers and for related questions."""

import math
import time
from collections.abc import Callable

from services.query_api.http.problems import Problem
from services.query_api.http.token_buckets import TokenBuckets


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
