"""Tells whether a browser sent a request from a page of this server or of another site."""

from typing import Literal
from urllib.parse import urlsplit

from litestar.datastructures import Headers


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
