"""The API's Prometheus metrics."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class Metrics:
    """Counters and histograms in the given registry. Each API needs a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "sluice_requests", "Requests answered", ["method", "route", "status"], registry=registry
        )
        self.search_seconds = Histogram(
            "sluice_search_seconds",
            "Time of one search, query embedding included",
            ["mode"],
            buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )
        self.empty_searches = Counter("sluice_empty_searches", "Searches without a hit", registry=registry)
        self.ingests = Counter(
            "sluice_ingests", "Submissions by their status in the reply", ["status"], registry=registry
        )
