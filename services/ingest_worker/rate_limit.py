"""Limits the rate at which a new generation is built, so that it doesn't slow down searches and new documents."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from shared.log import Record
from shared.state.generations import Registered


class RateLimit:
    """Lets through at most `limit` records per second of those below `ends`; newer ones are never delayed."""

    def __init__(
        self,
        limit: float,
        ends: Mapping[str, int],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Take offsets by partition; `pause` and `clock` (seconds) are for tests."""
        self._every_s = 1 / limit
        self._ends = ends
        self._pause = pause
        self._clock = clock or asyncio.get_running_loop().time
        self._next = 0.0

    async def turn(self, record: Record) -> None:
        """Wait until it is the record's turn."""
        if record.offset >= self._ends.get(str(record.partition), 0):
            return
        now = self._clock()
        turn = max(self._next, now)
        self._next = turn + self._every_s
        if turn > now:
            await self._pause(turn - now)


def rate_limit_of(registered: Registered) -> RateLimit | None:
    """Return the rate limit that was set when the generation's build began; None if there is none."""
    return None if registered.limit is None else RateLimit(registered.limit, registered.ends)
