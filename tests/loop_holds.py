"""What holds the event loop up: CPU time of its thread per callback, whatever else the machine does."""

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Another machine's turn, a cold cache or a fault of a page only ever adds; what is slow is slow each time.
TRIES: Final = 3


class _Collections(threading.local):
    """What collections of more than the youngest objects took of this thread's CPU time."""

    seconds = 0.0
    began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] > 0:
            if phase == "start":
                self.began = time.thread_time()
            else:
                self.seconds += time.thread_time() - self.began


_collections = _Collections()
gc.callbacks.append(_collections)


def cpu_s() -> float:
    """Return the seconds of CPU time of this thread, without those of middle and full collections.

    They go through all that the tests of this process have made, or through the last million objects, as the thresholds
    of `tests.conftest` have it, for up to a second. A service's heap is settled when it starts, and its middle
    collections go through 7,000 objects (`shared.runtime.process.settle_memory`).
    """
    return time.thread_time() - _collections.seconds


class LoopHolds:
    """The longest callback since the last look."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._what = ""

    def note(self, seconds: float, what: Any) -> None:
        if seconds > self._longest:
            self._longest, self._what = seconds, repr(what)[:300]

    def look(self) -> tuple[float, str]:
        """Return the seconds of CPU time of the longest callback and what it was, and forget both."""
        found = self._longest, self._what
        self._longest, self._what = 0.0, ""
        return found


@contextmanager
def loop_holds() -> Iterator[LoopHolds]:
    """Measure the callbacks of every event loop of this process."""
    holds, run = LoopHolds(), asyncio.events.Handle._run

    def measured(self: asyncio.Handle) -> None:
        began = cpu_s()
        run(self)
        holds.note(cpu_s() - began, self)

    setattr(asyncio.events.Handle, "_run", measured)  # noqa: B010 - mypy takes it for a method
    try:
        yield holds
    finally:
        setattr(asyncio.events.Handle, "_run", run)  # noqa: B010


def least_cpu_s(work: Callable[[], object], limit_s: float) -> float:
    """Return the CPU seconds of the first of three runs of `work` that is within the limit, or of the fastest."""
    taken: list[float] = []
    while len(taken) < TRIES:
        began = cpu_s()
        work()
        taken.append(cpu_s() - began)
        if taken[-1] <= limit_s:
            break
    return min(taken)


async def least_hold(work: Callable[[], Awaitable[T]], limit_s: float) -> tuple[T, float, str]:
    """Return what `work` gave, and the longest callback of the first of three runs that is within the limit.

    If none is, it is that of the run whose longest callback was shortest: its CPU seconds and what it was.
    """
    seen: list[tuple[float, str]] = []
    while True:
        with loop_holds() as holds:
            await asyncio.sleep(0)  # what was before is another callback
            holds.look()
            given = await work()
            await asyncio.sleep(0)
            seen.append(holds.look())
        if seen[-1][0] <= limit_s or len(seen) == TRIES:
            return given, *min(seen)
