"""Limits what each key or tenant may use per minute."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

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
