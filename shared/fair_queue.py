"""A fair queue: however many items one flow has, the others still get their turn."""

import asyncio
import sys
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")
CALLER: ContextVar[str] = ContextVar("caller", default="")  # tenant of the request that runs


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


class FairTurns:
    """At most `size` turns at a time. Between two turns of a waiting tenant, every other one gets at most one.

    A tenant has at most `each` turns at a time, so that turns which never end leave some for others.
    """

    def __init__(self, size: int, each: int | None = None) -> None:
        self._free = size
        self._shares = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(each or sys.maxsize))
        self._users = Counter[str]()  # turns and waiters of each tenant; one without any has no share, either
        self._waiting = FairQueue[asyncio.Future[None]]()  # some were cancelled

    def locked(self, tenant: str) -> bool:
        """Return whether the tenant would have to wait for a turn."""
        return self._free == 0 or (tenant in self._shares and self._shares[tenant].locked())

    async def acquire(self, tenant: str) -> None:
        """Return when the tenant has a turn. Its waiters keep their order."""
        self._users[tenant] += 1
        try:
            await self._shares[tenant].acquire()
        except asyncio.CancelledError:
            self._left(tenant)
            raise
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(tenant, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._shares[tenant].release()
                self._left(tenant)
            else:  # the turn came in the same moment
                self.release(tenant)
            raise

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Run the block when the tenant has a turn."""
        await self.acquire(tenant)
        try:
            yield
        finally:
            self.release(tenant)

    async def came(self, tenant: str, within_s: float | None) -> bool:
        """Return whether the tenant has got a turn within that time (None: any); else it has left the queue."""
        try:
            async with asyncio.timeout(within_s):
                await self.acquire(tenant)
        except TimeoutError:
            return False
        return True

    def release(self, tenant: str) -> None:
        """End a turn of the tenant, and give it to the next waiter."""
        self._shares[tenant].release()
        self._left(tenant)
        while self._waiting:
            turn = self._waiting.take()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1

    def _left(self, tenant: str) -> None:
        self._users[tenant] -= 1
        if not self._users[tenant]:
            del self._users[tenant], self._shares[tenant]
