"""Routes for monitoring: liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from litestar import Litestar, Response, get
from litestar.di import NamedDependency, Provide
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

OPEN: Final = "exclude_from_auth"  # the framework's name for a route that needs no key
RETRY_AFTER_S: Final = 5
_TEXT = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")  # the framework adds it

Troubles = Callable[[], Awaitable[Mapping[str, str | None]]]  # check -> None, a Detail, or what is wrong


class Detail(str):
    """A check's information that isn't a problem: readiness shows it and stays ready."""

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


@get("/readyz", operation_id="readyz", opt={OPEN: True})
async def readyz(probed: NamedDependency[Probed]) -> Response[dict[str, Any]]:
    """Say whether all it needs is there."""
    found = await probed.troubles()
    details = {name: said for name, said in found.items() if isinstance(said, Detail)}
    checks = {name: None if name in details else said for name, said in found.items()}
    more = {"details": details} if details else {}
    if any(checks.values()):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return Response({"status": "not ready", "checks": checks, **more}, status_code=503, headers=headers)
    return Response({"status": "ready", "checks": checks, **more})


@get("/metrics", operation_id="metrics", opt={OPEN: True}, media_type=_TEXT)
async def metrics(probed: NamedDependency[Probed]) -> bytes:
    """Show all counters in Prometheus' text format."""
    return generate_latest(probed.registry)


def side_app(probed: Probed) -> Litestar:
    """Return the application of a side port: only the probes, no documents."""
    return Litestar(
        [livez, readyz, metrics],
        dependencies={"probed": Provide(lambda: probed, sync_to_thread=False)},
        openapi_config=None,
        logging_config=None,
    )
