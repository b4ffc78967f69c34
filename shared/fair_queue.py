"""A fair queue: however many items one flow has, the others still get their turn."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several flows, taken round-robin. The items of one flow keep their order.

    Between two items of a flow, at most one item of each other flow is taken.
    """

    def __init__(self) -> None:
        self._flows: dict[Hashable, deque[T]] = {}  # never empty; the first one is next

    def __bool__(self) -> bool:
        """Return whether there are items."""
        return bool(self._flows)

    def put(self, flow: Hashable, item: T) -> None:
        """Add an item at the end of its flow."""
        self._flows.setdefault(flow, deque()).append(item)

    def take(self) -> T:
        """Remove and return the next item.

        Raises:
            StopIteration: the queue is empty.
        """
        flow = next(iter(self._flows))
        waiting = self._flows.pop(flow)
        item = waiting.popleft()
        if waiting:
            self._flows[flow] = waiting  # at the end, behind the other flows
        return item


class Rotation:
    """Runs one callback per iteration of the event loop, round-robin by caller; a caller's own keep their order.

    An iteration runs every task that is ready. If 500 requests start in one, every other request waits for all of them
    at each of its steps.
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
