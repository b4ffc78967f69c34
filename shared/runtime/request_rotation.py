"""Starts requests round-robin by caller, so that one caller's many requests don't delay another's single one."""

import asyncio
from collections.abc import Callable, Hashable

from shared.store.fair_queue import FairQueue


class RequestRotation:
    """Runs one callback per iteration of the event loop, round-robin by caller; a caller's own keep their order.

    An iteration runs every task that is ready. If 500 requests start in one iteration, every other request waits for
    all of them at each of its steps.
    """

    def __init__(self) -> None:
        self._waiting = FairQueue[Callable[[], None]]()
        self._running = False

    def add(self, caller: Hashable, start: Callable[[], None]) -> None:
        """Run `start` at once if nothing was started in this iteration, else when it is the caller's turn."""
        self._waiting.put(caller, start)
        if not self._running:
            self._next()

    def _next(self) -> None:
        self._running = bool(self._waiting)
        if not self._running:
            return
        start = self._waiting.take()
        asyncio.get_running_loop().call_soon(self._next)
        start()
