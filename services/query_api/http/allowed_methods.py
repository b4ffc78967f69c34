"""Names all methods of a path in `Allow`: the framework answers OPTIONS with those of the first handler only."""

from typing import Final, cast

from litestar import Litestar
from litestar.datastructures import MutableScopeHeaders
from litestar.routes import HTTPRoute
from litestar.types import HTTPScope, Message, Scope

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
