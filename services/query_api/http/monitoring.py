"""Readiness and metrics at the API's port, which strangers can reach, too."""

from typing import Any, Literal

import msgspec
from litestar import Response
from prometheus_client import CollectorRegistry, Counter, Histogram

from services.query_api.http.auth import Keyring, slowed
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import JSON, get
from shared.log.metrics import LogFigures
from shared.runtime.connections import ip_of
from shared.runtime.probes import METRICS_TEXT, Probed, exposition, report
from shared.settings import Settings, networks_of


class Metrics:
    """Counters and histograms in the given registry. Each API needs a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "sluice_requests", "Requests answered", ["method", "route", "status"], registry=registry
        )
        self.reply_seconds = Histogram(
            "sluice_reply_seconds",
            "Time from a request to the first byte of its reply",
            ["route"],
            buckets=(0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=registry,
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


class Readiness(msgspec.Struct, frozen=True):
    """Whether Sluice is ready; with a key, what each part says: null if all is well."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str | None] = {}
    details: dict[str, str] = {}


@get("/readyz", open=True, ok={JSON: Readiness}, instead={503: {JSON: Readiness}})
async def readyz(request: ApiRequest) -> Response[dict[str, Any]]:
    """Say whether everything that Sluice needs works. Callers with a key also see what doesn't."""
    detailed = True
    try:
        await slowed(request.part(Keyring).caller_of(request))
    except Problem:
        detailed = False
    return await report(request.part(Probed), detailed=detailed)


@get("/metrics", open=True, refuses=(401,), ok={METRICS_TEXT: str}, media_type=METRICS_TEXT)
async def metrics(request: ApiRequest) -> bytes:
    """Show all figures in Prometheus' text format. Needs the role operator, or a network of SLUICE_METRICS_ALLOW."""
    if not _in_networks(request, request.part(Settings)):
        caller = await slowed(request.part(Keyring).caller_of(request))
        if not caller.may("operator"):
            raise Problem(403, "this API key lacks the role operator", details={"role": "operator"})
    return await exposition(request.part(Probed)) + await request.part(LogFigures).exposition()


def _in_networks(request: ApiRequest, settings: Settings) -> bool:
    """Return whether the caller is in a network that may read the metrics without a key."""
    if "x-forwarded-for" in request.headers and not settings.proxies:
        return False  # a proxy that SLUICE_PROXIES doesn't name: its address says nothing of the caller's
    host = ip_of(request.client.host if request.client else "")
    return host is not None and any(host in network for network in networks_of(settings.metrics_allow))
