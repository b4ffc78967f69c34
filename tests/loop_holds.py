"""What holds the event loop up: CPU time of its thread per callback, whatever else the machine does."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
        began = time.thread_time()
        run(self)
        holds.note(time.thread_time() - began, self)

    setattr(asyncio.events.Handle, "_run", measured)  # noqa: B010 - mypy takes it for a method
    try:
        yield holds
    finally:
        setattr(asyncio.events.Handle, "_run", run)  # noqa: B010
