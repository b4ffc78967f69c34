"""`/openapi.json`: the framework's description of the routes, completed by all replies that each can give.

The framework knows parameters, bodies and the type of a 200. Guards, limits and the check of browsers refuse requests,
too. Their replies are derived here from what a route declares, so that no route can forget one.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from services.query_api.http.problems import ERRORS, PROBLEM_TYPES, AnyRequest, is_openai
from services.query_api.http.request import beside
from services.query_api.http.route_decorator import JSON, SMALL, Content, RouteOptions, role_of

ROLE: Final = "x-role"  # of an operation: the role that its key needs; `any` takes every key
_DESCRIBED: Final = "openapi"  # in the app's state
_REF: Final = "#/components/schemas/{name}"
_WHY: Final = {
    400: "A parameter, a header or the body is wrong; the sentence names it.",
    401: "There is no API key, or an unknown one.",
    403: "The key lacks the role, or a page of another site sent the request.",
    404: "Nothing has this name.",
    408: "The body came too slowly.",
    409: "Not possible in the present state; the code says why.",
    410: "The cursor is too old.",
    412: "Another version has been accepted since.",
    413: "The body or a part of it is too large.",
    415: "The route takes no body of this type.",
    422: "The request is well-formed, but what it asks for isn't possible; the code says why.",
    429: "Too many requests at once, or too much in a minute; nothing was accepted.",
    501: "This installation can't do it; the sentence says what is missing.",
    503: "A part that is needed is unavailable; the sentence names it.",
}
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-Id": {
        "description": "The request's `X-Request-Id`, or a new one. Log events of the request have it, too.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 0}},
    "WWW-Authenticate": {"schema": {"type": "string"}},
    "Location": {"description": "The URL that reports how this submission ended.", "schema": {"type": "string"}},
    "Link": {"description": 'The event stream of this submission, `rel="monitor"`.', "schema": {"type": "string"}},
    "Preference-Applied": {"description": "The preference that was applied.", "schema": {"type": "string"}},
    "ETag": {"description": "The accepted version. `If-Match` of a PATCH takes it.", "schema": {"type": "string"}},
    "Content-Disposition": {"schema": {"type": "string"}},
}
_REQUIRED: Final = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_ACCEPTED: Final = ("Location", "Link", "Retry-After", "Preference-Applied")
_DESCRIPTION: Final = """\
Ingests documents into an index, searches it, and answers questions from it.

Every route is also served under `/api`. Before a route is reached, the connection itself can reply: 400 for data that \
isn't HTTP, 408 for headers that come too slowly, 431 for too large ones, and 503 with `Retry-After` at the limit of \
connections. A 405 names the methods of a path in `Allow`."""


class RouteExample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to a route, and the reply that it got once."""

    path: dict[str, str] = {}
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    type: str = JSON
    body: Any = None
    status: int = 200
    replied: str = JSON  # the reply's media type
    reply: Any = None


@cache
def examples() -> Mapping[str, RouteExample]:
    """Return an example of each route by its operation id, in the order in which they can be sent."""
    text = files(__package__).joinpath("examples.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, RouteExample])


async def described_instead(request: AnyRequest) -> Response[Any] | None:
    """Return the description, made beside the event loop, before the framework makes its own; None below its path."""
    return None if request.path_params else Response(await beside(True, described, request.app), media_type=JSON)


def described(app: Litestar) -> dict[str, Any]:
    """Return the description of every route with its replies. It is made once, which takes 0.3 s."""
    if _DESCRIBED not in app.state:
        app.state[_DESCRIBED] = _described(app)
    found: dict[str, Any] = app.state[_DESCRIBED]
    return found


def _described(app: Litestar) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(app.openapi_schema.to_schema()))  # a copy
    routes = [
        (route.path_format, method.lower(), handler)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (handler, _) in route.route_handler_map.items()
        if handler.resolve_include_in_schema() and method.lower() in spec["paths"].get(route.path_format, {})
    ]
    types: dict[str, Any] = {}
    for path, method, handler in routes:
        operation = spec["paths"][path][method]
        declared = cast("RouteOptions", handler.opt)
        if (body := declared.get("body")) is not None:
            operation["requestBody"] = {"content": _content(body, types), "required": "query" not in declared}
        operation |= {
            "summary": (operation.get("description") or operation["summary"]).partition("\n")[0],
            "responses": _responses(path, handler, operation, types),
        }
        if declared.get("open"):
            operation["security"] = [{}]  # none is needed
        else:
            operation[ROLE] = role_of(handler) or "any"
        if (example := examples().get(operation["operationId"])) is not None:
            _show(operation, example)
    components = spec["components"]
    components["schemas"] = {**types, **components["schemas"], **ERRORS}
    components["headers"] = _HEADERS
    components["responses"] = {f"{error}{status}": _refusal(status, error) for status in _WHY for error in ERRORS}
    spec["info"]["description"] = _DESCRIPTION
    return spec


def _content(content: Content, components: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a reply; the types that it refers to are added to the components."""
    return {media_type: {"schema": _schema(given, components)} for media_type, given in content.items()}


def _schema(given: Any, components: dict[str, Any]) -> dict[str, Any]:
    if given is bytes:
        return {"type": "string", "format": "binary"}
    if isinstance(given, dict):
        return given
    kinds = given if isinstance(given, tuple) else (given,)
    schemas, named = msgspec.json.schema_components(kinds, ref_template=_REF)
    components |= named
    return schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]}


def _responses(
    path: str, handler: HTTPRouteHandler, operation: Mapping[str, Any], types: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    declared = cast("RouteOptions", handler.opt)
    ok, accepted, headers = declared.get("ok"), declared.get("accepted"), declared.get("headers", ())
    content = operation["responses"]["200"]["content"] if ok is None else _content(ok, types)
    found: dict[str, dict[str, Any]] = {
        "200": {
            "description": "The request succeeded.",
            "content": content,
            "headers": _headers(("Preference-Applied", *headers) if accepted else headers),
        }
    }
    if accepted:
        sentence = "The log has the submission; processing has not finished yet."
        found["202"] = {"description": sentence, "content": content, "headers": _headers(_ACCEPTED)}
    if declared.get("nothing"):
        found["204"] = {"description": "Success; the reply has no body.", "headers": _headers(())}
    error = "OpenAIError" if is_openai(path) else "DifyError" if path == "/retrieval" else "Problem"
    for status in sorted(_refusals(operation, declared)):
        found[str(status)] = {"$ref": f"#/components/responses/{error}{status}"}
    if "413" in found:
        most, values = declared.get("takes", SMALL)
        why = f"The body has more than {most} bytes, or more than {values} values of JSON."
        found["413"] = {**_refusal(413, error), "description": f"{HTTPStatus(413).phrase}. {why}"}
    for status, instead in declared.get("instead", {}).items():
        found[str(status)] = {**_refusal(status, "Problem"), "content": _content(instead, types)}
    return found


def _refusals(operation: Mapping[str, Any], declared: RouteOptions) -> set[int]:
    """Return the statuses of all problems: those that the route declares, and those that follow from its properties."""
    found = {403, *declared.get("refuses", ())}  # 403: every route refuses pages of other sites
    if not declared.get("open"):
        found |= {401, 429, *((503,) if declared.get("needs_parts", True) else ())}
    places = {parameter["in"] for parameter in operation.get("parameters", ())}
    if "path" in places:
        found.add(404)
    # Our own routes refuse unknown parameters of the query, the others only wrong values.
    if "query" in places or operation["operationId"].startswith(("rag_", "ops_")):
        found.add(400)
    body = operation.get("requestBody")
    if body is not None:
        found |= {400, 408, 413}
        if "application/octet-stream" not in body["content"]:  # the route takes only certain types
            found.add(415)
    if declared.get("json_only"):
        found.add(415)
    return found


def _refusal(status: int, error: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=error)}
    return {
        "description": f"{HTTPStatus(status).phrase}. {_WHY[status]}",
        "content": {media_type: {"schema": schema} for media_type in PROBLEM_TYPES},
        "headers": {**_headers(()), **_headers(_REQUIRED.get(status, ()), required=True)},
    }


def _headers(names: Iterable[str], *, required: bool = False) -> dict[str, dict[str, Any]]:
    given = {name: _HEADERS[name] for name in names}
    return {
        "X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"},
        **{
            name: {**header, "required": True} if required else {"$ref": f"#/components/headers/{name}"}
            for name, header in given.items()
        },
    }


def _show(operation: dict[str, Any], example: RouteExample) -> None:
    """Add the example to the operation."""
    given = {"path": example.path, "query": example.query}
    for parameter in operation.get("parameters", ()):
        values = given.get(parameter["in"], {})
        if parameter["name"] in values:
            parameter["example"] = values[parameter["name"]]
    if example.body is not None:
        operation["requestBody"]["content"][example.type]["example"] = example.body
    if example.reply is not None:
        content = operation["responses"][str(example.status)]["content"]
        for media_type in content:
            if media_type.partition(";")[0] in (example.replied, "*/*"):
                content[media_type] |= {"example": example.reply}


MORE_LINES = {
    "GET /openapi.json": "describe every route in detail",
    "GET /readyz": "say whether everything that Sluice needs works; open to everybody",
}
