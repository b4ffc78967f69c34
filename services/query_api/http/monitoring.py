"""Readiness and metrics at the API's port, which strangers can reach, too."""

from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Literal

import msgspec
from litestar import Response
from prometheus_client import CollectorRegistry, Counter, Histogram

from services.query_api.http.auth import Keyring, slowed
from services.query_api.http.problems import AnyRequest, Problem
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import JSON, get
from shared.log.metrics import LogFigures
from shared.runtime.probes import METRICS_TEXT, Probed, exposition, report


class Metrics:
    """Counters and histograms in the given registry. Each API needs a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
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


class Monitoring:
    """Decides who may see details and metrics."""

    def __init__(
        self, keyring: Keyring, networks: tuple[IPv4Network | IPv6Network, ...], *, behind_proxies: bool
    ) -> None:
        """Take the keys, the networks that may read the metrics without one, and whether proxies say who calls."""
        self._keyring = keyring
        self._networks = networks
        self._behind_proxies = behind_proxies

    async def may_see_details(self, request: AnyRequest) -> bool:
        """Return whether the request has a valid key, or keys aren't needed."""
        try:
            await slowed(self._keyring.caller_of(request))
        except Problem:
            return False
        return True

    async def check_may_see_metrics(self, request: AnyRequest) -> None:
        """Check that the caller is an operator or in one of the networks.

        Raises:
            Problem: 401, the caller has no key; 403, the caller is not an operator.
        """
        if not self._in_networks(request):
            caller = await slowed(self._keyring.caller_of(request))
            if not caller.may("operator"):
                raise Problem(403, "this API key lacks the role operator", details={"role": "operator"})

    def _in_networks(self, request: AnyRequest) -> bool:
        if "x-forwarded-for" in request.headers and not self._behind_proxies:
            return False  # a proxy that SLUICE_PROXIES doesn't name: its address says nothing of the caller's
        try:
            host = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(host in network for network in self._networks)


@get("/readyz", open=True, ok={JSON: Readiness}, instead={503: {JSON: Readiness}})
async def readyz(request: ApiRequest) -> Response[dict[str, Any]]:
    """Say whether everything that Sluice needs works. Callers with a key also see what doesn't."""
    return await report(request.part(Probed), detailed=await request.part(Monitoring).may_see_details(request))


@get("/metrics", open=True, refuses=(401,), ok={METRICS_TEXT: str}, media_type=METRICS_TEXT)
async def metrics(request: ApiRequest) -> bytes:
    """Show all figures in Prometheus' text format. Needs the role operator, or a network of SLUICE_METRICS_ALLOW."""
    await request.part(Monitoring).check_may_see_metrics(request)
    return await exposition(request.part(Probed)) + await request.part(LogFigures).exposition()
