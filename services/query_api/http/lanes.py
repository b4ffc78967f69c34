"""The `opt` of a route: its lane, its line on the index page, and the bodies that it accepts."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from litestar.handlers import HTTPRouteHandler

Lane = Literal["bring", "ask", "watch"]  # submit documents; request and reply; long-lived streams
LANE: Final = "lane"
LINE: Final = "line"
READS: Final = "reads"  # changes nothing, whatever its method and role
AUDITED: Final = "audited"  # is entered in the audit trail, though it asks for no role
JSON_ONLY: Final = "json_only"  # refuses bodies that browsers send without a preflight request, such as forms


def in_lane(lane: Lane, line: str | None = None, *, json_only: bool = False) -> dict[str, Any]:
    """Return a route's `opt`: the lane whose limit its requests share, and its line on the index page, if any.

    `json_only` is for routes that change something for a whole tenant or for all tenants.
    """
    return {LANE: lane, **({} if line is None else {LINE: line}), **({JSON_ONLY: True} if json_only else {})}


def index_of(handlers: Iterable[object]) -> dict[str, str]:
    """Return the lines of the index page by method and path, in the order of the handlers."""
    lines: dict[str, str] = {}
    for handler in handlers:
        if isinstance(handler, HTTPRouteHandler) and LINE in handler.opt:
            path = min(handler.paths).replace("{document_id:str}", "{id}")
            lines[f"{min(handler.http_methods)} {path}"] = handler.opt[LINE]
    return lines
