"""Room for large bodies in a stage's memory: a backlog of them waits in the log and the blob store, not here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

ROOM_BYTES: Final = 64 << 20  # two of the largest that a door takes; small ones travel in their records


class MemoryBudget:
    """So many bytes, taken first come, first served; who wants more than all of it gets it alone."""

    def __init__(self, size: int = ROOM_BYTES) -> None:
        self._size = size
        self._taken = 0
        self._first = asyncio.Lock()  # held by who waits for room; the others wait behind it
        self._left = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Run the block with room for `size` bytes; nothing is always there at once."""
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
