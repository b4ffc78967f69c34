"""Finds the API's routes: every handler that a module of the given packages defines."""

import importlib
import pkgutil
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Final

from litestar.handlers import HTTPRouteHandler

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
