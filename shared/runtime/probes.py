"""Routes for monitoring: liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from litestar import Litestar, Response, get
from litestar.di import NamedDependency, Provide
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Info, ProcessCollector, generate_latest

from shared.version import VERSION

OPEN: Final = "open"  # in a route's opt: it needs no key
RETRY_AFTER_S: Final = 5
METRICS_TEXT: Final = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")  # the framework adds it

Troubles = Callable[[], Awaitable[Mapping[str, str | None]]]  # check -> None, a Detail, or what is wrong


class Detail(str):
    """Information of a check that isn't a problem: readiness shows it and stays ready."""

    __slots__ = ()


class Probed:
    """What the probes report; replaced when the process has started."""

    def __init__(self, troubles: Troubles, registry: CollectorRegistry) -> None:
        self.troubles = troubles
        self.registry = registry


@get("/livez", operation_id="livez", opt={OPEN: True})
async def livez() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "alive"}


async def report(probed: Probed, *, detailed: bool = True) -> Response[dict[str, Any]]:
    """Return the reply of a readiness probe; without `detailed`, only whether it is ready."""
    found = await probed.troubles()
    details = {name: state for name, state in found.items() if isinstance(state, Detail)}
    checks = {name: None if name in details else state for name, state in found.items()}
    more = {"checks": checks, **({"details": details} if details else {})} if detailed else {}
    if any(checks.values()):
        return Response({"status": "not ready", **more}, status_code=503, headers={"Retry-After": str(RETRY_AFTER_S)})
    return Response({"status": "ready", **more})


async def exposition(probed: Probed) -> bytes:
    """Return all figures in Prometheus' text format, those of the process and of its parts as they are now."""
    now = CollectorRegistry()
    ProcessCollector(registry=now)
    Info("sluice_build", "The release that runs.", registry=now).info({"version": VERSION})
    up = Gauge("sluice_dependency_up", "1 if what readiness checks works, else 0.", ["part"], registry=now)
    for part, trouble in (await probed.troubles()).items():
        up.labels(part).set(trouble is None or isinstance(trouble, Detail))
    return generate_latest(probed.registry) + generate_latest(now)


@get("/readyz", opt={OPEN: True})
async def _readyz(probed: NamedDependency[Probed]) -> Response[dict[str, Any]]:
    return await report(probed)


@get("/metrics", opt={OPEN: True}, media_type=METRICS_TEXT)
async def _metrics(probed: NamedDependency[Probed]) -> bytes:
    return await exposition(probed)


def side_app(probed: Probed) -> Litestar:
    """Return the application of a side port: only the probes, no documents."""
    return Litestar(
        [livez, _readyz, _metrics],
        dependencies={"probed": Provide(lambda: probed, sync_to_thread=False)},
        openapi_config=None,
        logging_config=None,
    )
