"""Measures how long the event loop was held up, which delays every request."""

import asyncio
import selectors
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result, as `asyncio.run` does, from an event loop that `LoopLag` can measure."""
    with asyncio.Runner(loop_factory=_TimedLoop) as runner:
        return runner.run(main)


class _TimedSelector(selectors.DefaultSelector):
    """Notes the longest time in which the loop didn't look for events: it costs a process that is idle nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0  # seconds
        self._woken: float | None = None  # time.perf_counter() at the end of the last wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begun = time.perf_counter()
        if self._woken is not None:
            self.longest = max(self.longest, begun - self._woken)
        found = super().select(timeout)
        self._woken = time.perf_counter()
        if timeout is not None and timeout > 0:  # it may have waited for the interpreter's lock, too
            self.longest = max(self.longest, self._woken - begun - timeout)
        return found


class _TimedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = _TimedSelector()
        super().__init__(self.selector)


class LoopLag(Collector):
    """Tells the longest gap of the running loop since the last scrape; nothing if the loop isn't one of `run`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        loop = asyncio.get_running_loop()
        self._selector = loop.selector if isinstance(loop, _TimedLoop) else None
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge and reset it."""
        if self._selector is None:
            return
        longest, self._selector.longest = self._selector.longest, 0.0
        yield GaugeMetricFamily(
            "sluice_event_loop_longest_gap_seconds",
            "Longest time the event loop was held up since the last scrape.",
            value=longest,
        )
