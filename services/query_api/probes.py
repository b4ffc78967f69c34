"""For machines that watch: probes, metrics, and a page that says what is here."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.query_api.auth import OPEN
from services.query_api.metrics import Metrics
from services.query_api.problems import RETRY_AFTER_S, AnyRequest

ROUTES = {
    "POST /rag/ingest": "add or replace a document: source, path, text",
    "POST /rag/ingest/text": "add a text",
    "POST /rag/ingest/upload": "add files",
    "GET /rag/documents": "list documents",
    "GET /rag/documents/{id}": "how a document stands; /chunks and /text show what it holds",
    "DELETE /rag/documents/{id}": "delete a document",
    "POST /rag/search": "find passages: query, topK, filters",
    "POST /rag/query": "ask chosen documents: question, documentIds",
    "POST /chat": "chat: message, useRag",
    "GET /openapi.json": "all of it in detail",
    "GET /readyz": "whether everything it needs is there",
}


_TEXT = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")  # the framework adds it


class Readiness:
    """Asks everything the service needs how it is."""

    def __init__(self, check: Callable[[], Awaitable[Mapping[str, str | None]]]) -> None:
        self._check = check

    async def troubles(self) -> dict[str, str | None]:
        """Return each check's name with None, or with the sentence that says what is wrong."""
        return dict(await self._check())


class Version:
    """The running version."""

    def __init__(self, version: str) -> None:
        self.version = version


@get("/livez", operation_id="livez", opt={OPEN: True})
async def livez() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "alive"}


@get("/readyz", operation_id="readyz", opt={OPEN: True})
async def readyz(readiness: NamedDependency[Readiness]) -> Response[dict[str, Any]]:
    """Say whether all it needs is there."""
    checks = await readiness.troubles()
    if any(checks.values()):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return Response({"status": "not ready", "checks": checks}, status_code=503, headers=headers)
    return Response({"status": "ready", "checks": checks})


@get("/metrics", operation_id="metrics", opt={OPEN: True}, media_type=_TEXT)
async def metrics(metrics: NamedDependency[Metrics]) -> bytes:
    """Show all counters in Prometheus' text format."""
    return generate_latest(metrics.registry)


@get("/openapi.json", include_in_schema=False, opt={OPEN: True})
async def openapi(request: AnyRequest) -> dict[str, Any]:
    """Describe every route."""
    return request.app.openapi_schema.to_schema()


@get("/", include_in_schema=False, opt={OPEN: True})
async def landing(version: NamedDependency[Version]) -> dict[str, Any]:
    """Say what this is and where things are."""
    return {"name": "Sluice", "version": version.version, "routes": ROUTES}
