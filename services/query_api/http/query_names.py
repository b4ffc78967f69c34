"""Refuses unknown query parameters, because a misspelt filter would widen a list."""

from typing import TYPE_CHECKING, Final, cast

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi.spec import Operation
from litestar.routes import HTTPRoute

from services.query_api.http.lenient import check_filled
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.reply_warnings import nearest

if TYPE_CHECKING:
    from litestar.types import HTTPScope

_OURS: Final = ("/rag/", "/ops/")  # routes for other products' clients ignore unknown parameters


class KnownQuery:
    """A guard for all routes. It looks up each route's parameters once."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, str], dict[str, bool]] = {}  # by route, then name: whether it is a list

    async def __call__(self, connection: ASGIConnection, handler: BaseRouteHandler) -> None:  # type: ignore[type-arg]  # the framework's own signature
        """Raise a 400 for a parameter that is unknown, unfilled, or sent twice with different values.

        Handlers with an operation class of their own read the query themselves, and are left out.
        """
        scope = cast("HTTPScope", connection.scope)  # there are no sockets here
        path = scope["path_template"]
        if not connection.query_params or not path.removeprefix("/api").startswith(_OURS):
            return
        if not isinstance(handler, HTTPRouteHandler) or handler.operation_class is not Operation:
            return
        self._declared = self._declared or _declared(connection.app)
        known = self._declared[path, scope["method"]]
        for name in connection.query_params:
            if (plain := name.removesuffix("[]")) not in known:
                raise _unknown(name, sorted(known))
            values = connection.query_params.getall(name)
            check_filled(plain, values[0] if len(values) == 1 else values)
            if not known[plain] and len({*values}) > 1:
                raise invalid(plain, f"was sent more than once: {values[0][:100]!r}, {values[1][:100]!r}")


def _declared(app: Litestar) -> dict[tuple[str, str], dict[str, bool]]:
    return {
        (route.path_format, method): {each.field_alias: each.is_sequence for each in model.expected_query_params}
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (_, model) in route.route_handler_map.items()
    }


def _unknown(name: str, known: list[str]) -> Problem:
    near, shown = nearest(name, known, 0.5), name[:100]
    if near:
        sentence = f"{shown}: this route has no such query parameter; did you mean {near}?"
    elif known:
        sentence = f"{shown}: this route has no such query parameter; it takes {', '.join(known)}"
    else:
        sentence = f"{shown}: this route takes no query parameters"
    return Problem(400, sentence, details={"field": name, "nearest": near})
