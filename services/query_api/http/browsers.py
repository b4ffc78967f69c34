"""Refuses requests from web pages of other sites, unless a setting lists their origin.

A browser sends requests wherever a page tells it to. Without API keys, that would let any page write, erase and, by DNS
rebinding, read. Headers that a page can't forge tell such requests apart: `Host` is the name by which the page reached
this server, and `Origin` and `Sec-Fetch-Site` (W3C Fetch Metadata) say where the page came from. Requests of curl, n8n
and client libraries have neither `Origin` nor `Sec-Fetch-Site`, and pass.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from litestar.datastructures import Headers
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from services.query_api.http.problems import Problem
from shared.runtime.connections import ip_of


def sending_site(headers: Headers) -> Literal["own", "other", "unknown"]:
    """Return whose page sent the request; `unknown` if no page did, or the browser doesn't say.

    A page can't forge `Sec-Fetch-Site` (W3C Fetch Metadata), so it decides if it says `same-origin` or `cross-site`.
    Otherwise `Origin` must name the host that was called.
    """
    site = headers.get("sec-fetch-site", "").lower()
    if site in ("same-origin", "cross-site"):
        return "own" if site == "same-origin" else "other"
    origin = headers.get("origin")
    if origin is None:
        return "unknown"
    if _host_of(origin) != headers.get("host", "").lower():
        return "other"
    return "unknown" if site else "own"


def _host_of(origin: str) -> str | None:
    """Return the host with its port; None if the origin is `null` or no URL, such as `http://[`."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


SAFE: Final = frozenset({"GET", "OPTIONS"})  # methods that change nothing
LOCAL_NAMES: Final = frozenset({"localhost", "host.docker.internal"})  # the second is used by n8n in Docker
_SAFE_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",  # never run a document as a script
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}


async def add_safe_headers(origins: bool, message: Message, _: Scope) -> None:
    """Add the security headers that a reply lacks; a page of a listed origin, if there is one, may read the reply."""
    if message["type"] == "http.response.start":
        given = {name for name, _ in message["headers"]}
        safe = _SAFE_HEADERS | ({b"cross-origin-resource-policy": b"cross-origin"} if origins else {})
        message["headers"] = [*message["headers"], *(each for each in safe.items() if each[0] not in given)]


class BrowserGuard(ASGIMiddleware):
    """Middleware that refuses requests of other sites' pages with 403.

    `hosts` are this API's names besides loopback addresses. They are checked only while `keyless` returns True, that
    is, while callers need no key. `origins` are the origins whose pages may call; `*` allows any.
    """

    def __init__(self, *, hosts: Iterable[str], origins: Iterable[str], keyless: Callable[[], bool]) -> None:
        self._keyless = keyless
        self._hosts = LOCAL_NAMES | {host.lower() for host in hosts if host}
        self._origins = frozenset(origin.lower() for origin in origins)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request. Raises the 403 or 415 that refuses it."""
        headers = Headers.from_scope(scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if host and self._keyless():
            # Without port, brackets (IPv6) and trailing dot.
            name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].removesuffix(".")
            if not (name in self._hosts if (ip := ip_of(name)) is None else ip.is_loopback):
                raise Problem(
                    403,
                    f"the host {host[:100]!a} is not one of this server's names; SLUICE_ALLOWED_HOSTS can add it",
                    code="HOST_NOT_ALLOWED",
                )
        listed = "*" in self._origins or origin in self._origins
        # There are no sockets here.
        if not listed and sending_site(headers) == "other" and not _visit(cast("HTTPScope", scope), headers):
            raise Problem(
                403,
                "a page of another site sent this request; add its origin to SLUICE_CORS_ORIGINS to allow it",
                code="ORIGIN_NOT_ALLOWED",
            )
        if scope["route_handler"].opt.get("json_only") and not _json_or_empty(headers):
            raise Problem(415, "this route takes application/json")
        await next_app(scope, receive, send)


def _visit(scope: HTTPScope, headers: Headers) -> bool:
    """Return whether a person follows a link to a page; the other site can't see the reply."""
    return (
        scope["method"] == "GET"
        and bool(scope["route_handler"].opt.get("page"))
        and headers.get("origin") is None
        and headers.get("sec-fetch-dest", "document") == "document"
    )


def _json_or_empty(headers: Headers) -> bool:
    """Return whether the body is JSON or empty. Browsers send others, such as forms, without a preflight request."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" if kind else not has_body(headers)


def has_body(headers: Headers) -> bool:
    """Return whether the request has a body."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
