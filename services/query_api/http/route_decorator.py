"""Declares routes: who may call one, what it takes, and what it replies, all in its decorator.

That is the handler's `opt`, for the middleware and for `/openapi.json`. `openapi.py` adds the replies that follow from
role, lane, parameters and body. The handler's name is its operation id.
"""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack, cast

import litestar
from litestar import Litestar
from litestar.datastructures import MutableScopeHeaders
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import Empty, HTTPScope, Message, Scope

from services.query_api.http.browsers import SAFE
from shared.settings import Role

Lane = Literal["bring", "ask", "watch"]  # submit documents; request and reply; long-lived streams


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


def index_of(handlers: Iterable[object]) -> dict[str, str]:
    """Return the lines of the index page by method and path, in the order of the handlers."""
    lines: dict[str, str] = {}
    for handler in handlers:
        if isinstance(handler, HTTPRouteHandler) and "line" in handler.opt:
            path = min(handler.paths).replace("{document_id:str}", "{id}")
            lines[f"{min(handler.http_methods)} {path}"] = handler.opt["line"]
    return lines


JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENT_STREAM: Final = "text/event-stream"
UNBUFFERED: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # headers of a stream
# Types by media type: a struct, a TypedDict, `str`, `bytes`, a JSON Schema, or a tuple of them: any of these.
Content = Mapping[str, Any]


class StreamEvent(TypedDict, total=False):
    """A server-sent event; `data` is JSON. Comments keep the connection open."""

    event: str
    data: str
    id: str


class RouteOptions(TypedDict, total=False):
    """What a route declares beside its method and path; its handler's `opt`."""

    role: Role | tuple[Role, ...] | None  # that callers need: one of them; None: any key
    open: bool  # to everybody, without a key
    audited: bool  # it is entered in the audit trail, though it asks for no role
    page: bool  # other sites may link to it: it changes nothing, or checks who began it
    lane: Lane  # whose limit its requests share; default: ask
    line: str  # on the index page; without it, the page leaves the route out
    takes: BodyLimit  # default: SMALL
    holds: int  # most bytes of a body that it holds in memory; default: the whole body
    reads: bool  # whether it changes nothing; default: by method, and for the role `query`, it does not
    json_only: bool  # no body that browsers send without a preflight: it changes something for a tenant, or for all
    conflicts: bool  # a `Rejected` is a 409 instead of a 422
    query: type[Any]  # a dataclass of query parameters, which the handler gets as `wanted`
    refuses: tuple[int, ...]  # statuses of problems that are specific to this route
    ok: Content  # of the 200; default: what the handler returns
    accepted: bool  # whether the reply may be a 202 with the same content, while processing continues
    nothing: bool  # whether the reply may be a 204
    headers: tuple[str, ...]  # of the 200, besides those of all replies
    instead: Mapping[int, Content]  # the content of a refusal that isn't a problem
    needs_parts: bool  # whether it needs the log, the store or a model, and so may answer 503; default: true
    media_type: str
    description: str  # instead of the docstring
    in_schema: bool  # default: true
    body: Content  # what it reads by itself, and without `query` its query, too: no annotation can express it


ROUTE_ROLES: Final = "roles"  # in a route's opt: a caller needs one of them; none if any key, or none, will do


def role_of(handler: BaseRouteHandler) -> Role | None:
    """Return the first role that the route asks for; None if any key, or none, will do."""
    return next(iter(handler.opt.get(ROUTE_ROLES, ())), None)


def only_reads(scope: Scope) -> bool:
    """Return whether the route changes nothing: as it declares, else by the method."""
    opt = scope["route_handler"].opt
    return bool(opt.get("reads", scope.get("method", "GET") in SAFE and not opt.get("audited")))


_Decorator = Callable[[Callable[..., Awaitable[Any]]], HTTPRouteHandler]


def _route(method: Callable[..., _Decorator], path: str, **declared: Unpack[RouteOptions]) -> _Decorator:
    """Return the decorator that makes a handler a route of this method; its status is 200."""

    def decorate(handler: Callable[..., Awaitable[Any]]) -> HTTPRouteHandler:
        role, query = declared.get("role"), declared.get("query")
        roles = role if isinstance(role, tuple) else () if role is None else (role,)
        if roles[:1] == ("query",):
            declared.setdefault("reads", True)
        return method(
            path,
            operation_id=handler.__name__,
            dependencies=None if query is None else {"wanted": Provide(query, sync_to_thread=False)},
            opt={"lane": "ask", **declared, ROUTE_ROLES: roles},
            status_code=200,
            media_type=declared.get("media_type"),
            description=declared.get("description"),
            include_in_schema=declared.get("in_schema", Empty),
        )(handler)

    return decorate


get = partial(_route, litestar.get)
post = partial(_route, litestar.post)
put = partial(_route, litestar.put)
patch = partial(_route, litestar.patch)
delete = partial(_route, litestar.delete)
submit = partial(
    post, role="ingest", lane="bring", refuses=(409, 422), accepted=True
)  # a document; replies with its end
answers = partial(
    post, role="query", takes=WHOLE, refuses=(404, 422, 501)
)  # a conversation; replies with its next turn


# Finding them

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")  # the order of methods on the same path


def routes_in(rooms: Iterable[ModuleType], *, excluding: Collection[str] = ()) -> list[HTTPRouteHandler]:
    """Return the handlers that the rooms' modules define, sorted by room, then by path.

    The index page and `/openapi.json` have this order. Modules named in `excluding` aren't imported.
    """
    found: list[HTTPRouteHandler] = []
    for room in rooms:
        names = [f"{room.__name__}.{module.name}" for module in pkgutil.iter_modules(room.__path__)]
        known = (each for name in names if name not in excluding for each in handlers_in(name))
        found += sorted(known, key=lambda each: (min(each.paths), _METHODS.index(min(each.http_methods))))
    return found


def handlers_in(name: str) -> list[HTTPRouteHandler]:
    """Return the handlers that the module defines, not those that it imports."""
    known = vars(importlib.import_module(name)).values()
    found = [each for each in known if isinstance(each, HTTPRouteHandler) and each.fn.__module__ == name]
    for handler in found:
        handler.parsed_fn_signature  # noqa: B018  # kept: else each path of each application parses it
    return found


async def allow_methods(message: Message, scope: Scope) -> None:
    """Correct the header of a reply to OPTIONS: the framework's names those of one router. A hook before each send."""
    if message["type"] == "http.response.start" and cast("HTTPScope", scope)["method"] == "OPTIONS":
        headers = MutableScopeHeaders.from_message(message)
        if "Allow" in headers:
            headers["Allow"] = _methods(scope["litestar_app"]).get(scope["path_template"], headers["Allow"])


@lru_cache(1)
def _methods(app: Litestar) -> dict[str, str]:
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    return {route.path_format: ", ".join(sorted(route.route_handler_map)) for route in routes}
