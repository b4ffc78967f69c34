"""The Model Context Protocol at `/mcp`, for agents: `search`, `fetch`, `ask`, and the documents as resources.

The protocol's library comes with the extra `mcp`. Its import takes a second, so the first request does it in a thread.
"""

import asyncio
from importlib.util import find_spec
from typing import Final

from litestar import asgi
from litestar.types import ASGIApp, Receive, Scope, Send

from services.query_api.http.problems import Problem
from services.query_api.http.route_decorator import ROUTE_ROLES
from shared.version import how_to_add

MISSING: Final = f"this server was installed without MCP: add the extra `mcp` with {how_to_add('mcp')}"


def _handler() -> ASGIApp:
    from services.query_api.clients.mcp_server import handle  # an extra, and slow

    return handle


@asgi("/mcp", opt={ROUTE_ROLES: ("query",), "reads": True}, copy_scope=True)
async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request. No sessions are kept, so any instance of the API can answer any request."""
    if scope["method"] != "POST":  # type: ignore[typeddict-item]  # there are no sockets here
        raise Problem(405, "send MCP requests by POST; this server keeps no sessions", headers={"Allow": "POST"})
    if find_spec("mcp") is None:
        raise Problem(501, MISSING, code="NOT_INSTALLED")
    handle = await asyncio.to_thread(_handler)
    await handle(scope, receive, send)
