"""The client's errors, turned into ours. Pure."""

import json
from typing import Final

from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from shared.errors import PipelineError, Rejected, Unavailable
from shared.store import NO_COLLECTION

VENDOR: Final = (
    ApiException,
    QdrantException,
    # For a proxy's page with status 200, which the client doesn't catch.
    json.JSONDecodeError,
    UnicodeDecodeError,
)
NO_ACCESS: Final = "store_access"
LIMIT: Final = "store_limit"
_LONGEST: Final = 500  # characters of the server's message

_TOO_LARGE, _TOO_MANY = 413, 429
_REFUSED: Final = frozenset({400, 409, _TOO_LARGE, 422})
_UNINDEXED: Final = ("No range index for", "No appropriate index for")  # orders and facets need one, filters don't
_PREFIXES: Final = ("Wrong input: ", "Bad request: ", "Rate limiting exceeded: ", "Not found: ")


def status(error: BaseException | None) -> int | None:
    """Return the HTTP status; None if there is none."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code
    return _TOO_MANY if isinstance(error, ResourceExhaustedResponse) else None


def ours(error: Exception, url: str, *, limited: type[PipelineError] = Unavailable) -> Exception:
    """Return our exception for one of `VENDOR`.

    `limited` is raised where the request is well formed but the server is set to refuse it (strict mode: a filter
    by a field without an index, a limit). That concerns the operator, unless a caller chose field and limit.
    """
    text, code = reason(error), status(error)
    if code in {401, 403}:
        return Unavailable(f"the store at {url} refuses access: {text}", NO_ACCESS)
    if code == 404:
        return Unavailable(f"the store at {url} has no such collection: {text}", NO_COLLECTION)
    if code == _TOO_MANY:
        return Unavailable(f"the store at {url} accepts no more requests for now: {text}", "store_busy")
    # Strict mode has no status of its own. Its messages end in advice, except those about a full collection.
    if code in _REFUSED and (" Help: " in text or text.startswith("Max ")):
        if limited is Rejected:  # a caller reads it, not the operator
            return Rejected(f"the store is set to refuse this: {text}", LIMIT)
        return limited(f"the store at {url} is set to refuse this: {text}", LIMIT)
    if code in _REFUSED and not text.startswith(_UNINDEXED):  # indexes follow a collection that is made again
        return ValueError(f"the store at {url} refused the request: {text}")
    return Unavailable(f"the store at {url} can't answer: {text}")


def too_large(error: BaseException | None) -> bool:
    """Return whether the server may accept the same points in smaller requests."""
    code, text = status(error), reason(error)
    if code == _TOO_MANY:
        return "please try to split" in text
    return code == _TOO_LARGE or (code in _REFUSED and '"upsert limit"' in text)


def reason(error: BaseException | None) -> str:
    """Return the server's message, or why there is none; at most 500 characters, without a key."""
    if isinstance(error, UnexpectedResponse):
        text = _sentence(error.content) or f"{error.status_code} {error.reason_phrase}"
    elif isinstance(error, ResponseHandlingException):
        text = f"{type(error.source).__name__} {error.source}".rstrip()
    elif isinstance(error, ResourceExhaustedResponse):
        text = str(error)
    else:
        text = f"{type(error).__name__} {error}"
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text[:_LONGEST]


def _sentence(content: bytes) -> str:
    try:
        return str(json.loads(content)["status"]["error"])
    except (ValueError, LookupError, TypeError):  # a proxy's page
        return content.decode(errors="replace").strip()
