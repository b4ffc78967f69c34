"""Gauges of the embedded store and log: points, deleted points, and bytes by topic."""

import time
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.store import Store
from shared.store.edge import EdgeStore

EVERY_S: Final = 60.0
LOG_EVERY_S: Final = 3600.0  # measuring a log reads an entry of each record


class Growth:
    """Gauges of an embedded store and log; servers have metrics of their own."""

    def __init__(self, registry: CollectorRegistry, log: Log, store: Store) -> None:
        self._log = log
        self._store = store
        self._live = Gauge("sluice_store_live_points", "Points of a collection", ["collection"], registry=registry)
        self._dead = Gauge(
            "sluice_store_dead_points", "Deleted points that still take space", ["collection"], registry=registry
        )
        self._store_bytes = Gauge("sluice_store_bytes", "Bytes on the disk", ["collection"], registry=registry)
        self._log_bytes = Gauge("sluice_log_bytes", "Bytes of a topic's records", ["topic"], registry=registry)
        self._weighed = -LOG_EVERY_S

    async def look(self) -> None:
        """Measure the store, and once an hour the log. Raises Unavailable."""
        if isinstance(self._store, EdgeStore):
            for size in await self._store.sizes():
                self._live.labels(size.name).set(size.live)
                self._dead.labels(size.name).set(size.dead)
                self._store_bytes.labels(size.name).set(size.disk_bytes)
        if isinstance(self._log, SqliteLog) and time.monotonic() - self._weighed >= LOG_EVERY_S:
            for topic, weight in (await self._log.topic_bytes()).items():
                self._log_bytes.labels(topic).set(weight)
            self._weighed = time.monotonic()
