"""Limits the memory for large bodies in a stage; further bodies wait on the log and in the blob store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final
from weakref import WeakValueDictionary

from shared.log.consume import stepped_aside

ROOM_BYTES: Final = 64 << 20  # two bodies of the largest size accepted by default; small bodies are in their records


class MemoryBudget:
    """A budget of `size` bytes for each tenant, two of which may be used up at a time.

    A tenant's requests are served in order; one that is larger than its budget runs alone among them. A record that
    waits steps aside.
    """

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._each = WeakValueDictionary[str, _Budget]()  # of tenants with bodies
        self._all = _Budget(2 * size)
        self._size = size

    @asynccontextmanager
    async def taken(self, size: int, tenant: str) -> AsyncIterator[None]:
        """Run the block once the tenant has `size` bytes; 0 bytes never wait."""
        if not size:
            yield
            return
        size = min(size, self._size)
        budget = self._each.setdefault(tenant, _Budget(self._size))
        async with budget.taken(size), self._all.taken(size):
            yield


class _Budget:
    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._first = asyncio.Lock()  # held by the request that waits for memory; the others queue here
        self._left = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        fits = not self._first.locked() and self._taken + size <= self._size
        with nullcontext() if fits else stepped_aside("other large bodies are handled first"):
            async with self._first:
                while self._taken + size > self._size:
                    self._left.clear()
                    await self._left.wait()
                self._taken += size
        try:
            yield
        finally:
            self._taken -= size
            self._left.set()
