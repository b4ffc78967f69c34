"""Measures how long the event loop was blocked, which delays every request."""

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

EVERY_S = 0.01


class LoopLag(Collector):
    """Watches the running loop; its metric is the longest gap since the last scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._longest = 0.0
        registry.register(self)

    async def watch(self) -> None:
        """Measure for ever."""
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(EVERY_S)
            self._longest = max(self._longest, time.perf_counter() - begun - EVERY_S)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge and reset it."""
        longest, self._longest = self._longest, 0.0
        yield GaugeMetricFamily(
            "sluice_event_loop_longest_gap_seconds",
            "Longest time the event loop was held up since the last scrape.",
            value=longest,
        )
