"""The route `/openapi.json`, and the index page's lines for routes that are defined elsewhere."""

from typing import Any

from litestar import get

from services.query_api.http.auth import needs_key
from services.query_api.http.lanes import in_lane
from services.query_api.http.openapi import described
from services.query_api.http.problems import AnyRequest

MORE_LINES = {
    "GET /openapi.json": "describe every route in detail",
    "GET /readyz": "say whether everything that Sluice needs works; open to everybody",
}


@get("/openapi.json", include_in_schema=False, guards=[needs_key], opt=in_lane("ask"))
async def openapi(request: AnyRequest) -> dict[str, Any]:
    """Describe every route."""
    return described(request.app)
