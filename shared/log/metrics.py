"""Prometheus metrics of the stages."""

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from shared.log.consume import Consumption


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
