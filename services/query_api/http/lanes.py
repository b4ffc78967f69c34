"""The `opt` of a route: the lane whose limit its requests share, and its line on the index page."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from litestar.handlers import HTTPRouteHandler

Lane = Literal["bring", "ask", "watch"]  # documents come in; something is answered at once; a stream stays open
LANE: Final = "lane"
LINE: Final = "line"


def in_lane(lane: Lane, line: str | None = None) -> dict[str, Any]:
    """Return a route's `opt`: the lane whose limit its requests share, and its line on the index page, if any."""
    return {LANE: lane} if line is None else {LANE: lane, LINE: line}


def index_of(handlers: Iterable[object]) -> dict[str, str]:
    """Return the line of each route that has one, by method and path, in the order of the handlers."""
    lines: dict[str, str] = {}
    for handler in handlers:
        if isinstance(handler, HTTPRouteHandler) and LINE in handler.opt:
            path = min(handler.paths).replace("{document_id:str}", "{id}")
            lines[f"{min(handler.http_methods)} {path}"] = handler.opt[LINE]
    return lines
