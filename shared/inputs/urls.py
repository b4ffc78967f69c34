"""Addresses of pages: one spelling for each, so that a page is one document however it is asked for."""

import httpx

from shared.errors import Rejected

MOST_CHARACTERS = 2000
SCHEMES = frozenset({"http", "https"})


def canonical(url: str, base: str | None = None) -> str:
    """Return the address in one spelling: lower-case ASCII host, no default port, no fragment, no dot segments.

    A relative one is read as a link in `base`.

    Raises:
        Rejected: code `url`; the sentence says what is wrong with it.
    """
    text = url.strip()
    try:
        read = httpx.URL(text) if base is None else httpx.URL(base).join(text)
        # Read once more: what is the default port, the first reading judges by the scheme as it was written.
        parsed = httpx.URL(str(read.copy_with(scheme=read.scheme.lower(), fragment=None)))
        fault = _fault(text, parsed)
        if fault is None:
            parsed = parsed.copy_with(host=parsed.host.removesuffix("."), raw_path=parsed.raw_path)
            if len(str(parsed)) <= MOST_CHARACTERS:
                return str(parsed)
            fault = f"has {len(str(parsed))} characters, at most {MOST_CHARACTERS} are possible"
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        fault = f"can't be read: {error}"
    raise Rejected(f"the address {text[:200]!r} {fault}", "url") from None


def origin(url: str) -> str:
    """Return scheme://host of an address that `canonical` gave, with the port unless it is the scheme's own."""
    return f"{httpx.URL(url).scheme}://{authority(url)}"


def authority(url: str) -> str:
    """Return the host of an address that `canonical` gave, with the port unless it is the scheme's own."""
    return httpx.URL(url).netloc.decode("ascii")


def _fault(text: str, url: httpx.URL) -> str | None:
    if url.scheme not in SCHEMES:
        return f"has the scheme {url.scheme!r}; http and https can be fetched"
    if url.userinfo or "\\" in text:
        return "has a backslash, or a name or password before its host; that disguises where it leads"
    if not url.host.strip(".") or "%" in url.host or " " in url.host:
        return "names no host that can exist"
    if url.port is not None and not 0 < url.port < 65536:
        return f"has the port {url.port}, which can't exist"
    return None
