"""Starts requests in rotation, so that one caller's many requests don't delay another caller's single one."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable


class RequestRotation:
    """Runs callbacks, one per turn of the event loop, the callers in rotation and each caller's own in their order.

    A turn lasts as long as everything that is ready in it. If a crowd of 500 requests starts in one turn, every other
    request waits for all of them at each of its steps.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Callable[[], None]]] = {}
        self._running = False

    def add(self, caller: Hashable, start: Callable[[], None]) -> None:
        """Run `start` at once if none ran in this turn, else when it is the caller's turn."""
        self._waiting.setdefault(caller, deque()).append(start)
        if not self._running:
            self._next()

    def _next(self) -> None:
        self._running = bool(self._waiting)
        if not self._running:
            return
        caller = next(iter(self._waiting))
        starts = self._waiting.pop(caller)
        start = starts.popleft()
        if starts:
            self._waiting[caller] = starts  # behind the other callers
        asyncio.get_running_loop().call_soon(self._next)
        start()
