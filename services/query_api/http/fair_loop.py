"""Keeps long work for one request from holding up the others."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
HELD_S: Final = 0.005  # how long a loop over many items may hold the event loop
# One thread: the event loop would wait for the interpreter's lock once for each of several.
_THREAD: Final = ThreadPoolExecutor(1, "long-work")


async def beside(large: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`. If its input is large, it runs in a thread beside the event loop."""
    if not large:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: work(*args, **kwargs))


class LoopTurns:
    """Gives the event loop back every few milliseconds."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give(self) -> None:
        """Let others run if this has held the event loop for `HELD_S`."""
        if time.perf_counter() - self._since > HELD_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
