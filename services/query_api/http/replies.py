"""What a route replies besides its 200, declared in its `opt` for `/openapi.json`.

`openapi.py` adds the replies that follow from a route's guard, lane, parameters and body.
"""

from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

REPLIES: Final = "replies"
JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENT_STREAM: Final = "text/event-stream"
Content = Mapping[
    str, Any
]  # types by media type: a struct, a TypedDict, `str`, `bytes`, or a tuple of them: any of these


class StreamEvent(TypedDict, total=False):
    """A server-sent event; `data` is JSON. Comments keep the connection open."""

    event: str
    data: str
    id: str


class Replies(msgspec.Struct, frozen=True):
    """What one route replies."""

    refusals: frozenset[int] = frozenset()  # statuses of problems that are specific to this route
    ok: Content | None = None  # content of the 200; None: what the handler returns
    accepted: bool = False  # whether the reply may be a 202 with the same content, while processing continues
    nothing: bool = False  # whether the reply may be a 204
    headers: tuple[str, ...] = ()  # of the 200, besides those of all replies
    instead: Mapping[int, Content] = {}  # the content of a refusal that isn't a problem
    needs_parts: bool = True  # whether it needs the log, the store or a model, and so may answer 503


def replies(
    *refusals: int,
    ok: Content | None = None,
    accepted: bool = False,
    nothing: bool = False,
    headers: tuple[str, ...] = (),
    instead: Mapping[int, Content] | None = None,
    needs_parts: bool = True,
) -> dict[str, Any]:
    """Return the part of a route's `opt` that declares its replies; see `Replies`."""
    return {REPLIES: Replies(frozenset(refusals), ok, accepted, nothing, headers, instead or {}, needs_parts)}


def replies_of(opt: Mapping[str, Any]) -> Replies:
    """Return what a route declares by its `opt`."""
    declared: Replies = opt.get(REPLIES, Replies())
    return declared
