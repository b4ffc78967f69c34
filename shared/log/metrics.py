"""Prometheus metrics of the stages."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from shared.errors import Unavailable
from shared.log import Log
from shared.log.consume import Consumption
from shared.log.groups import lags
from shared.log.open_letters import OpenLetters
from shared.times import now_ms, parse_iso

_PATIENCE_S = 5.0  # Prometheus waits for ten


class ConsumptionMetrics(Collector):
    """Reads the counters of a process' stages when it is scraped."""

    def __init__(self, consumptions: Callable[[], Sequence[Consumption]], registry: CollectorRegistry) -> None:
        """Take a function that returns the stages, because a switch of generations replaces some of them."""
        self._consumptions = consumptions
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield each stage's counters and gauges."""
        handled = CounterMetricFamily("sluice_records_handled", "Records done.", labels=["stage"])
        dead = CounterMetricFamily("sluice_records_dead", "Records set aside as dead letters.", labels=["stage"])
        retries = CounterMetricFamily("sluice_record_retries", "Attempts that were repeated.", labels=["stage"])
        flying = GaugeMetricFamily("sluice_records_in_flight", "Records taken in, not finished.", labels=["stage"])
        waiting = GaugeMetricFamily("sluice_partitions_waiting", "Partitions that wait for a part.", labels=["stage"])
        resting = GaugeMetricFamily("sluice_records_resting", "Records between bounded tries.", labels=["stage"])
        idle = GaugeMetricFamily("sluice_seconds_since_progress", "Since a record was finished.", labels=["stage"])
        lag = GaugeMetricFamily("sluice_lag", "Records not finished.", labels=["stage", "topic", "partition"])
        for each in self._consumptions():
            stage = [each.stage]
            handled.add_metric(stage, each.handled)
            dead.add_metric(stage, each.dead)
            retries.add_metric(stage, each.retries)
            flying.add_metric(stage, each.in_flight)
            waiting.add_metric(stage, len(each.waiting))
            resting.add_metric(stage, sum(map(len, each.retrying.values())))
            idle.add_metric(stage, time.monotonic() - each.last_progress)
            for tp, records in each.lag.items():
                lag.add_metric([each.stage, tp.topic, str(tp.partition)], records)
        yield from (handled, dead, retries, flying, waiting, resting, idle, lag)


class LogFigures:
    """What the log says of the stages of all processes and generations, a process that is scaled to zero included."""

    def __init__(self, log: Log, letters: OpenLetters, groups: Callable[[], Collection[str]]) -> None:
        """Take a function that returns the groups that somebody should read: a log keeps those of what is gone."""
        self._groups = groups
        self._log = log
        self._letters = letters

    async def exposition(self) -> bytes:
        """Return the figures in Prometheus' text format; nothing while the log is away, which readiness shows."""
        now = CollectorRegistry()
        names = ["role", "stage", "generation"]
        lag = Gauge("sluice_group_lag", "Records that a stage has yet to read.", names, registry=now)
        backlog = Gauge(
            "sluice_backlog", "Records that the workers of a role have yet to read.", ["role"], registry=now
        )
        age = Gauge("sluice_group_oldest_unread_seconds", "Age of its oldest unread record.", names, registry=now)
        open_ = Gauge("sluice_dead_letters_open", "Open dead letters.", ["stage", "code"], registry=now)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                groups, letters = await lags(self._log, self._groups()), await self._letters.counts()
        except (Unavailable, TimeoutError):
            return b""
        for each in groups:
            stage, _, generation = each.group.partition(".")
            role = "embed-worker" if stage == "embed" else "ingest-worker"
            labels = (role, stage, generation)
            lag.labels(*labels).set(each.lag)
            backlog.labels(role).inc(each.lag)
            oldest = now_ms() if each.oldest_unread is None else parse_iso(each.oldest_unread)
            age.labels(*labels).set(max(0, now_ms() - oldest) / 1000)
        for (stage, code), count in letters.items():
            open_.labels(stage, code).set(count)
        return generate_latest(now)
