"""When a request is sent again. Sending a document again is always safe: the server recognises it."""

import random
import time
from typing import Final

import httpx
import msgspec

from sluice_client.errors import SluiceError, SluiceUnreachableError

AGAIN: Final = frozenset({429, 503})
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
BROKEN: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class Tries:
    """The tries of one call. `pause_s` tells how long to wait before the next one, or raises."""

    def __init__(self, patience_s: float) -> None:
        self._until = time.monotonic() + patience_s
        self._count = 0

    def after_reply(self, reply: httpx.Response) -> float | None:
        """Return the seconds to wait before the next try, None if the reply is a success.

        Raises:
            SluiceError: the server refused the request, or is away for longer than the patience.
        """
        if reply.is_success:
            return None
        if reply.status_code not in AGAIN:
            raise _error(reply, SluiceError)
        return self._pause_s(_retry_after_s(reply), _error(reply, SluiceUnreachableError))

    def after_break(self, error: httpx.TransportError, url: str) -> float:
        """Return the seconds to wait before the next try, after there was no reply.

        Raises:
            SluiceUnreachableError: the patience is over, or the request may be at work still.
        """
        gone = SluiceUnreachableError(f"{url} does not reply: {error!r}", status=0, code="UNREACHABLE")
        if not isinstance(error, BROKEN):
            raise gone from error
        return self._pause_s(None, gone)

    def _pause_s(self, asked_s: float | None, error: SluiceError) -> float:
        self._count += 1
        longest = min(FIRST_PAUSE_S * 2 ** (self._count - 1), LONGEST_PAUSE_S)
        pause_s = random.uniform(longest / 2, longest) if asked_s is None else asked_s  # noqa: S311 - no secret
        if time.monotonic() + pause_s > self._until:
            raise error
        return pause_s


def _retry_after_s(reply: httpx.Response) -> float | None:
    value = reply.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _error(reply: httpx.Response, kind: type[SluiceError]) -> SluiceError:
    try:
        body = msgspec.json.decode(reply.content, type=dict)
    except msgspec.DecodeError:
        body = {}
    sentence = body.get("detail") or body.get("message") or f"the server replied {reply.status_code}"
    return kind(
        str(sentence),
        status=reply.status_code,
        code=str(body.get("code") or reply.status_code),
        details=body.get("details") or {},
    )
