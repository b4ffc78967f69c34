"""A semaphore whose waiters are served round-robin by tenant."""

import asyncio
import sys
from collections import Counter, defaultdict

from shared.fair_queue import FairQueue


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
