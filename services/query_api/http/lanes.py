"""The `opt` of a route: its lane, its line on the index page, and the bodies that it accepts."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from litestar.handlers import HTTPRouteHandler

Lane = Literal["bring", "ask", "watch"]  # submit documents; request and reply; long-lived streams
LANE: Final = "lane"
LINE: Final = "line"
READS: Final = "reads"  # changes nothing, whatever its method and role
AUDITED: Final = "audited"  # is entered in the audit trail, though it asks for no role
JSON_ONLY: Final = "json_only"  # refuses bodies that browsers send without a preflight request, such as forms
TAKES: Final = "takes"  # its BodyLimit
HOLDS: Final = "holds"  # most bytes of a body that it holds in memory; without it, the whole body


class BodyLimit(NamedTuple):
    """The largest body that a route reads."""

    bytes: int | Literal["SLUICE_MAX_BODY", "SLUICE_MAX_BATCH"]  # or the setting that has the number
    values: int = 20_000  # in JSON, lists and objects included; in a batch, of each item


SMALL: Final = BodyLimit(64 << 10)
METADATA: Final = BodyLimit(128 << 10)  # 40,000 bytes, which take 120,000 if each character is escaped
FILTERS: Final = BodyLimit(512_000)  # 10,000 document ids are 400,000 bytes
TEXTS: Final = BodyLimit(1_000_000)  # histories of chats
WHOLE: Final = BodyLimit("SLUICE_MAX_BODY")  # documents, and chats with images
CHUNKS: Final = BodyLimit("SLUICE_MAX_BODY", 200_000)  # 10,000 chunks of 20 values
BATCH: Final = BodyLimit("SLUICE_MAX_BATCH", CHUNKS.values)


def taken_by(opt: Mapping[str, Any]) -> BodyLimit:
    """Return the limit that a route declares by its `opt`."""
    limit: BodyLimit = opt.get(TAKES, SMALL)
    return limit


def index_of(handlers: Iterable[object]) -> dict[str, str]:
    """Return the lines of the index page by method and path, in the order of the handlers."""
    lines: dict[str, str] = {}
    for handler in handlers:
        if isinstance(handler, HTTPRouteHandler) and LINE in handler.opt:
            path = min(handler.paths).replace("{document_id:str}", "{id}")
            lines[f"{min(handler.http_methods)} {path}"] = handler.opt[LINE]
    return lines
