"""Adds `warnings` to replies: parts of the request that the route ignored, doubts or took otherwise.

`Prefer: handling=strict` (RFC 7240, section 4.4) asks for a 400 instead. Values are taken as workflow tools send them
daily, where their meaning is certain: n8n sends a number where a text is meant, an empty text for a number, an empty
list for an object. Unknown parameters are refused, and what was never filled in: n8n sends an expression that it didn't
evaluate as its own text.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

from services.query_api.http.problems import MOST_NAMED, WARNINGS, Problem, did_you_mean, invalid, nearest, preferences

# Routes of our own contract; other products' clients send many fields that are ignored.
OURS: Final = ("/rag/", "/ops/", "/knowledge-base", "/chat")
# Without them a search would be over everything, so they are looked for in bodies of other products, too.
FILTERING: Final = frozenset({"documentIds", "documentId", "filters", "pathPrefix", "tagsAll"})
_FILTERS: Final = ("ragFilters", "filters")  # the fields that hold filters
STRICT: Final = ("handling", "strict")  # with it, a caller wants doubtful requests to be refused
_QUERY: Final = "query_parameters"  # in a route's opt, by its paths


def warn(request: Request[Any, Any, Any], sentence: str, field: str) -> None:
    """Add the sentence to the reply's warnings.

    Raises:
        Problem: 400, the caller asked for strict handling.
    """
    if STRICT in preferences(request):
        raise Problem(400, sentence, details={"field": field})
    request.scope["state"].setdefault(WARNINGS, []).append(sentence)


def warned(request: Request[Any, Any, Any]) -> tuple[str, ...]:
    """Return the request's warnings so far, for a reply that isn't a JSON object."""
    return tuple(request.scope["state"].get(WARNINGS, ()))


def unknown_fields(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return a sentence for each of the first unknown names, and one about the others.

    A sentence suggests the nearest known name, or where a filter belongs.
    """
    known = frozenset(known)
    holder = next((name for name in _FILTERS if name in known), None)
    unknown = list(dict.fromkeys(name for name in names if name not in known))
    found: dict[str, str] = {}
    for name in unknown[:MOST_NAMED]:
        near = did_you_mean(name, known)
        if holder and name in FILTERING:
            near = f"; did you mean {holder if name in _FILTERS else f'{holder}.{name}'}?"
        found[name] = f"{name[:100]}: there is no such field{near}"
    if (more := len(unknown) - MOST_NAMED) > 0:
        found[unknown[MOST_NAMED]] = f"there are {more} more unknown fields"
    return found


def warn_of_unknown(request: Request[Any, Any, Any], names: Iterable[str], known: Iterable[str]) -> None:
    """Warn of each unknown name. Raises a 400 if the caller asked for strict handling."""
    for name, sentence in unknown_fields(names, known).items():
        warn(request, sentence, name)


@functools.cache
def _fields(body: Any) -> tuple[msgspec.inspect.Field, ...]:
    """Return the fields of a body's type; none if the type is not a struct."""
    if not (isinstance(body, type) and issubclass(body, msgspec.Struct)):
        return ()
    info = msgspec.inspect.type_info(body)
    assert isinstance(info, msgspec.inspect.StructType)
    return info.fields


@functools.cache
def fields_of(body: Any) -> frozenset[str]:
    """Return the JSON names of the fields of a body's type; none if the type is not a struct."""
    return frozenset(field.encode_name for field in _fields(body))


class ReplyWarnings(ASGIMiddleware):
    """Middleware that refuses unknown query parameters, and adds the warnings to the reply if that is a JSON object."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request. Raises a 400 for a query parameter that is unknown, unfilled or sent twice."""
        if scope["query_string"]:  # as a guard it would cost each request a copy of the route's handler
            _check_query(scope)
        start: HTTPResponseStartEvent | None = None

        async def warned(message: Message) -> None:
            nonlocal start
            if (
                message["type"] == "http.response.start"
                and scope["state"].get(WARNINGS)
                and message["status"] < 400
                and Headers(message["headers"]).get("content-type", "").startswith("application/json")
            ):
                start = message
                return
            if message["type"] == "http.response.body" and start is not None:
                begun, start = start, None
                if not message.get("more_body", False):
                    message["body"] = _with(message["body"], scope["state"][WARNINGS])
                    MutableScopeHeaders.from_message(begun)["Content-Length"] = str(len(message["body"]))
                await send(begun)
            await send(message)

        await next_app(scope, receive, warned)


def _with(body: bytes, sentences: list[str]) -> bytes:
    try:
        reply = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:  # a list
        return body
    own = msgspec.json.decode(reply.get(WARNINGS, b"[]"), type=list[str])
    return msgspec.json.encode({**reply, WARNINGS: [*own, *sentences]})


def _check_query(scope: Scope) -> None:
    """Raise a 400 for a parameter that is unknown (a misspelt filter would widen a list), unfilled, or sent twice.

    Handlers that declare their own body and no query read that themselves, and are left out.
    """
    connection, handler = ASGIConnection[Any, Any, Any, Any](scope), scope["route_handler"]
    ours = scope["path_template"].startswith(("/rag/", "/ops/"))
    if not ours or not isinstance(handler, HTTPRouteHandler) or {"body", "query"} & handler.opt.keys() == {"body"}:
        return
    known = _declared(scope)
    for name in connection.query_params:
        if (plain := name.removesuffix("[]")) not in known:
            raise _unknown(name, sorted(known))
        values = connection.query_params.getall(name)
        check_filled(plain, values[0] if len(values) == 1 else values)
        if not known[plain] and len({*values}) > 1:
            raise invalid(plain, f"was sent more than once: {values[0][:100]!r}, {values[1][:100]!r}")


def _declared(scope: Scope) -> dict[str, bool]:
    """Return the route's parameters by name, and whether each is a list. They are found once."""
    handler, path = scope["route_handler"], scope["path_template"]
    found: dict[str, dict[str, bool]] = handler.opt.setdefault(_QUERY, {})
    if path not in found:
        routes = (each for each in scope["litestar_app"].routes if isinstance(each, HTTPRoute))
        [route] = (each for each in routes if each.path_format == path)
        model = next(model for each, model in route.route_handler_map.values() if each is handler)
        found[path] = {each.field_alias: each.is_sequence for each in model.expected_query_params}
    return found[path]


def _unknown(name: str, known: list[str]) -> Problem:
    near, shown = nearest(name, known, 0.5), name[:100]
    if near:
        sentence = f"{shown}: this route has no such query parameter; did you mean {near}?"
    elif known:
        sentence = f"{shown}: this route has no such query parameter; it takes {', '.join(known)}"
    else:
        sentence = f"{shown}: this route takes no query parameters"
    return Problem(400, sentence, details={"field": name, "nearest": near})


_TEXT, _NUMBER, _TEXTS, _LIST, _OBJECT = "text", "number", "texts", "list", "object"  # a flag is a number
_LONGEST_UNFILLED: Final = 2_000  # characters of a text that was never filled in
_ADDRESSES: Final = frozenset({"source", "path", "url", "callbackUrl"})  # with a part unfilled, all items have one
_NOTHING: Final = frozenset({"undefined", "null", "NaN", "Invalid Date", "Invalid DateTime"})  # as scripts write it


def lenient(value: Mapping[str, Any], body: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields as the struct `body` has them, and a sentence for each that was taken otherwise.

    Raises:
        Problem: 400, a text is an expression that wasn't evaluated, or a required field is one level too deep.
    """
    taken, doubts, kinds = dict(value), dict[str, str](), _kinds(body)
    _check_unwrapped(value, body)
    for name, field in value.items():
        kind = kinds.get(name, frozenset())
        if isinstance(field, str) or kind & {_TEXTS, _OBJECT}:
            check_filled(name, field)
        if isinstance(field, str):
            if _NUMBER in kind and _TEXT not in kind and not field.strip():
                del taken[name]
                doubts[name] = f"{name}: an empty text was taken as not given"
            elif _TEXT in kind and len(field) < 30 and field.strip() in _NOTHING:
                doubts[name] = f"{name}: {field.strip()!r} was taken as a text; the workflow may have had no value"
        elif _is_number(field) and _TEXT in kind and _NUMBER not in kind:
            taken[name] = _as_text(field)
            doubts[name] = f"{name}: the number {taken[name]} was taken as text"
        elif isinstance(field, list) and not field and _OBJECT in kind and not kind & {_LIST, _TEXTS}:
            del taken[name]
            doubts[name] = f"{name}: an empty list was taken as not given"
        elif isinstance(field, list) and _TEXTS in kind and any(map(_is_number, field)):
            taken[name] = [_as_text(each) if _is_number(each) else each for each in field]
            doubts[name] = f"{name}: numbers were taken as texts"
    return taken, doubts


def check_filled(name: str, value: Any) -> None:
    """Raise a 400 if a text in the value is an expression that wasn't evaluated, or what a script makes of an object.

    Of what names a document or a page, no part may be one.
    """
    if (found := _first_unfilled(value, part=name in _ADDRESSES)) is not None:
        within, text = found
        raise invalid(name + within, f"is {text.strip()[:100]!r}: the workflow sent an expression instead of its value")


def _first_unfilled(value: Any, *, part: bool) -> tuple[str, str] | None:
    """Return where in the value the text is, and the text. The way to it is made from its end, where there is one."""
    if isinstance(value, str):
        return ("", value) if _unfilled(value, part=part) else None
    if isinstance(value, list):
        for number, each in enumerate(value):
            if (found := _first_unfilled(each, part=part)) is not None:
                return f"[{number}]{found[0]}", found[1]
    if isinstance(value, dict):
        for key, each in value.items():
            if (found := _first_unfilled(each, part=part)) is not None:
                return f".{key[:100]}{found[0]}", found[1]
    return None


def _unfilled(text: str, *, part: bool) -> bool:
    if len(text) > _LONGEST_UNFILLED or ("$" not in text and not text.lstrip().startswith("[object ")):
        return False
    text = text.strip()
    expression, closed, _ = text.partition("{{")[2].partition("}}")
    if part and closed and "$" in expression:
        return True
    if text.startswith(("{{", "={{")):
        return text.endswith("}}") and text.count("{{") == 1
    return all(each.startswith("[object ") and each.endswith("]") and each.count(" ") == 1 for each in text.split(","))


def _check_unwrapped(value: Mapping[str, Any], body: Any) -> None:
    """Raise a 400 if a field that is required is within another one, as in n8n's items and in its webhook's."""
    for required in _required(body):
        if value.get(required) is not None:
            continue
        for name, field in value.items():
            inner = field[0] if isinstance(field, list) and field else field
            if isinstance(inner, dict) and required in inner:
                raise invalid(required, f"is required; it is within {name[:100]}: send what that holds")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(number: float) -> str:
    return msgspec.json.encode(number).decode()


def texts_of(body: Any) -> frozenset[str]:
    """Return the fields of the struct `body` that are texts and nothing else."""
    return frozenset(name for name, kinds in _kinds(body).items() if kinds == {_TEXT})


@functools.cache
def _required(body: Any) -> tuple[str, ...]:
    return tuple(field.encode_name for field in _fields(body) if field.required)


@functools.cache
def _kinds(body: Any) -> dict[str, frozenset[str]]:
    return {field.encode_name: frozenset(_kinds_of(field.type)) for field in _fields(body)}


def _kinds_of(type_: msgspec.inspect.Type) -> set[str]:
    match type_:
        case msgspec.inspect.UnionType():
            return set[str]().union(*(_kinds_of(each) for each in type_.types))
        case msgspec.inspect.Metadata():
            return _kinds_of(type_.type)
        case msgspec.inspect.StrType():
            return {_TEXT}
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType() | msgspec.inspect.BoolType():
            return {_NUMBER}
        case msgspec.inspect.ListType():
            return {_TEXTS} if _kinds_of(type_.item_type) == {_TEXT} else {_LIST}
        case msgspec.inspect.DictType() | msgspec.inspect.StructType():
            return {_OBJECT}
        case _:
            return set()
