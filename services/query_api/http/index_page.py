"""The API's own description, and the index page's lines for routes that need no key. The console shows the page."""

from typing import Any

from litestar import get

from services.query_api.http.problems import AnyRequest
from shared.runtime.probes import OPEN

OPEN_LINES = {  # routes that need no key
    "GET /openapi.json": "describe every route in detail",
    "GET /readyz": "say whether everything that Sluice needs works",
}


@get("/openapi.json", include_in_schema=False, opt={OPEN: True})
async def openapi(request: AnyRequest) -> dict[str, Any]:
    """Describe every route."""
    return request.app.openapi_schema.to_schema()
