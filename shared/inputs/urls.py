"""Canonical spelling of page addresses, so that one page is one document, however its address is written."""

import httpx

from shared.errors import Rejected
from shared.inputs.limits import LONGEST_URL

_LONGEST = 5 * LONGEST_URL  # before it is shortened, for example by its fragment
SCHEMES = frozenset({"http", "https"})


def canonical(url: str, base: str | None = None) -> str:
    """Return the canonical address: lower-case ASCII host, no default port, no fragment, no dot segments.

    A relative address is resolved against `base`.

    Raises:
        Rejected: code `url`; the sentence says what is wrong with it.
    """
    text = url.strip()
    try:
        if len(text) > _LONGEST:  # parsing takes longer
            raise ValueError(f"it has {len(text)} characters")  # noqa: TRY301 - as the parser does
        read = httpx.URL(text) if base is None else httpx.URL(base).join(text)
        # Parsed twice: the first pass recognises the default port only where the scheme is in lower case.
        parsed = httpx.URL(str(read.copy_with(scheme=read.scheme.lower(), fragment=None)))
        fault = _fault(text, parsed)
        if fault is None:
            parsed = parsed.copy_with(host=parsed.host.removesuffix("."), raw_path=parsed.raw_path)
            if len(str(parsed)) <= LONGEST_URL:
                return str(parsed)
            fault = f"has {len(str(parsed))} characters, but at most {LONGEST_URL} are allowed"
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        fault = f"is not valid: {error}"
    raise Rejected(f"the address {text[:200]!r} {fault}", "url") from None


def origin(url: str) -> str:
    """Return scheme://host[:port] of a canonical address; the scheme's default port is left out."""
    return f"{httpx.URL(url).scheme}://{authority(url)}"


def authority(url: str) -> str:
    """Return host[:port] of a canonical address; the scheme's default port is left out."""
    return httpx.URL(url).netloc.decode("ascii")


def _fault(text: str, url: httpx.URL) -> str | None:
    if url.scheme not in SCHEMES:
        return f"has the scheme {url.scheme!r}; only http and https can be fetched"
    if url.userinfo or "\\" in text:
        return "has a backslash, or a user name or password before its host, which can hide the real host"
    if not url.host.strip(".") or "%" in url.host or " " in url.host:
        return "has no valid host name"
    if url.port is not None and not 0 < url.port < 65536:
        return f"has the port {url.port}, which is not in [1, 65535]"
    return None
