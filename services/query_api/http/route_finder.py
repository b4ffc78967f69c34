"""Finds the API's routes: every handler that a module of the given packages defines; and names all methods of a path.

The framework answers OPTIONS with those of the first handler only.
"""

import importlib
import pkgutil
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Final, cast

from litestar import Litestar
from litestar.datastructures import MutableScopeHeaders
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import HTTPScope, Message, Scope

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")  # the order of methods on the same path


def routes_in(rooms: Iterable[ModuleType], *, excluding: Collection[str] = ()) -> list[HTTPRouteHandler]:
    """Return the handlers that the rooms' modules define, sorted by room, then by path.

    The index page and `/openapi.json` have this order. Modules named in `excluding` aren't imported.
    """
    return [
        handler
        for room in rooms
        for handler in sorted(
            (each for name in _modules(room) if name not in excluding for each in _handlers(name)), key=_position
        )
    ]


def _modules(room: ModuleType) -> list[str]:
    return [f"{room.__name__}.{module.name}" for module in pkgutil.iter_modules(room.__path__)]


def _handlers(name: str) -> list[HTTPRouteHandler]:
    """Return the handlers that the module defines, not those that it imports."""
    known = vars(importlib.import_module(name)).values()
    return [each for each in known if isinstance(each, HTTPRouteHandler) and each.fn.__module__ == name]


def _position(handler: HTTPRouteHandler) -> tuple[str, int]:
    return min(handler.paths), _METHODS.index(min(handler.http_methods))


_ALLOW: Final = "Allow"


class AllowedMethods:
    """A hook that sees each message before it is sent; the methods of all paths are looked up once."""

    def __init__(self) -> None:
        self._of_path: dict[str, str] = {}

    async def __call__(self, message: Message, scope: Scope) -> None:
        """Correct the header of a reply to OPTIONS."""
        if message["type"] != "http.response.start" or cast("HTTPScope", scope)["method"] != "OPTIONS":
            return
        headers = MutableScopeHeaders.from_message(message)
        if _ALLOW in headers:
            self._of_path = self._of_path or _methods(scope["litestar_app"])
            headers[_ALLOW] = self._of_path.get(scope["path_template"], headers[_ALLOW])


def _methods(app: Litestar) -> dict[str, str]:
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    return {route.path_format: ", ".join(sorted(route.route_handler_map)) for route in routes}
