"""Slows the filling of a generation down, so that it leaves the machine and the model's server to others."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from shared.log import Record
from shared.state.generations import Registered


class RateLimit:
    """Lets at most `limit` records a second through, of those below `ends`; newer ones aren't held up."""

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
        """Return when it is the record's turn."""
        if record.offset >= self._ends.get(str(record.partition), 0):
            return
        now = self._clock()
        turn = max(self._next, now)
        self._next = turn + self._every_s
        if turn > now:
            await self._pause(turn - now)


def rate_limit_of(registered: Registered) -> RateLimit | None:
    """Return the pace that was asked for when the generation was begun."""
    return None if registered.limit is None else RateLimit(registered.limit, registered.ends)
