"""A semaphore whose waiters are served round-robin by tenant."""

import asyncio

from shared.store.fair_queue import FairQueue


class FairTurns:
    """At most `size` turns at a time. Between two turns of a waiting tenant, every other one gets at most one."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting = FairQueue[asyncio.Future[None]]()  # some were cancelled

    def locked(self) -> bool:
        """Return whether a turn would have to be waited for."""
        return self._free == 0

    async def acquire(self, tenant: str) -> None:
        """Return when the tenant has a turn. Its waiters keep their order."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.put(tenant, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn came in the same moment
                self.release()
            raise

    def release(self) -> None:
        """Give the turn to the next waiter."""
        while self._waiting:
            turn = self._waiting.take()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1
