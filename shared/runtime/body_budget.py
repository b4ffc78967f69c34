"""Limits the memory for large bodies in a stage; further bodies wait on the log and in the blob store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

ROOM_BYTES: Final = 64 << 20  # two bodies of the largest size accepted by default; small bodies are in their records


class MemoryBudget:
    """A budget of bytes, first come, first served; a request larger than the budget runs alone."""

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._size = size
        self._taken = 0
        self._first = asyncio.Lock()  # held by the request that waits for memory; the others queue here
        self._left = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Run the block once `size` bytes are free; 0 bytes never wait."""
        if size:
            async with self._first:
                while self._taken and self._taken + size > self._size:
                    self._left.clear()
                    await self._left.wait()
                self._taken += size
        try:
            yield
        finally:
            self._taken -= size
            self._left.set()
