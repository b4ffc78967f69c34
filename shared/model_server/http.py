"""What adapters of model servers share, whatever the protocol: the client, and the classes of failures."""

import asyncio
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import httpx
import msgspec
from pydantic import SecretStr

from shared.errors import Unavailable
from shared.settings import ConfigurationError

CONNECT_S: Final = 5.0
MOST_ANSWER: Final = 32 << 20  # bytes, unpacked; 64 vectors of 8,192 numbers have 12 MB

# Not the request's fault: the server or a proxy is busy or down.
_BUSY: Final = frozenset({408, 429, 502, 503, 504})
# Ollama: "the input length exceeds the context length"; vLLM, OpenAI: "This model's maximum context length is 512
# tokens. However, …", "max 300000 tokens per request"; llama.cpp: "input is too large to process", with status 500;
# text-embeddings-inference: "`inputs` must have less than 512 tokens".
_INPUT_TOO_LONG = r"(?:input|prompt|text|sequence)\b.{0,99}\btoo (?:long|large)"
_TOO_LONG: Final = {
    400: re.compile(
        rf"exceed\w{{0,9}}+\b.{{0,99}}\b(?:context|tokens)|context[ _](?:length|size|window)|{_INPUT_TOO_LONG}"
        r"|(?:less than|max\w{0,20}|at most) \d{1,20} tokens",
        re.IGNORECASE | re.DOTALL,
    ),
    500: re.compile(_INPUT_TOO_LONG, re.IGNORECASE | re.DOTALL),
}
_TOO_LONG[422] = _TOO_LONG[400]


# A server that fails on one text answers with one of these, or with a damaged vector (None). Other statuses, such as
# 401, 403, 404 and 405, are never a text's fault.
_PERHAPS_THE_TEXT: Final = frozenset({None, 400, 422, 500})


trusted = cache(httpx.create_ssl_context)  # loading the certificates takes 20 ms, and every client needs them


class TooLong(Exception):  # noqa: N818 - reads as what the server said
    """The server refuses the input as too long. Adapters catch it; it never reaches their callers."""


class BadAnswer(Unavailable):
    """The server answered, but with an error or an invalid result, perhaps because of one text of many.

    `status` is the HTTP status, or None for an invalid result with a success status. `perhaps_the_text`: one of the
    texts may be the reason, not the server.
    """

    def __init__(self, sentence: str, status: int | None = None, *, perhaps_the_text: bool = True) -> None:
        super().__init__(sentence)
        self.status = status
        self.perhaps_the_text = perhaps_the_text and status in _PERHAPS_THE_TEXT


_PIECE: Final = 4096  # bytes of an answer that are read in one step; a hundred lines of a stream
_SPENT_S: Final = 0.001  # on an answer, after which others have their turn
_LONGEST_S: Final = 0.02  # that counts of it: others may have had a turn, or the reader waited


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer, unpacked, which raises ValueError beyond `MOST_ANSWER`. 500 kB of gzip may be 500 MB.

    What comes faster than it is worth reading leaves half of the time to others.
    """

    _until = 0.0  # monotonic; until when the answers that come too fast rest, one after the other

    def __init__(self, sent: httpx.AsyncByteStream, *, packed: bool) -> None:
        self._sent = sent
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, spent_s = MOST_ANSWER, 0.0
        async for part in self._sent:
            rest = part
            while rest:
                shown, rest = self._unpacked(rest)
                left -= len(shown)
                if left < 0:
                    raise ValueError(f"it has more than {MOST_ANSWER >> 20} MB")
                for start in range(0, len(shown), _PIECE):
                    began = time.monotonic()
                    yield shown[start : start + _PIECE]
                    spent_s += (now := time.monotonic()) - began
                    if spent_s > _SPENT_S:
                        _Bounded._until = max(_Bounded._until, now) + 2 * min(spent_s, _LONGEST_S)
                        await asyncio.sleep(_Bounded._until - now)  # for others, who have as much time
                        spent_s = 0.0

    def _unpacked(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what the data says, at most a MB of it, and what is left of the data."""
        if self._unpacker is None:
            return data, b""
        try:
            return self._unpacker.decompress(data, 1 << 20), self._unpacker.unconsumed_tail
        except zlib.error as error:
            raise ValueError(f"it is no gzip: {error}") from error

    async def aclose(self) -> None:
        await self._sent.aclose()


async def _ask_for_gzip(request: httpx.Request) -> None:
    request.headers["accept-encoding"] = "gzip"  # httpx unpacks others, and stacked ones, without an end


async def _bounded(response: httpx.Response) -> None:
    coding = response.headers.pop("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise ValueError(f"it is packed as {short(coding)}, and gzip was asked for")
    sent = response.stream
    assert isinstance(sent, httpx.AsyncByteStream)
    response.stream = _Bounded(sent, packed=coding == "gzip")


# Hooks, because with a transport of ours httpx would pass over the proxies of the environment.
BOUNDED: Final[dict[str, list[Callable[..., Any]]]] = {"request": [_ask_for_gzip], "response": [_bounded]}


def client_with_key(variable: str, key: SecretStr, timeout_s: float) -> httpx.AsyncClient:
    """Return a client that sends the key, if there is one, and fails when nothing arrives for `timeout_s`.

    Raises:
        ConfigurationError: the key is not a valid header value; the sentence names `variable`.
    """
    secret = key.get_secret_value().strip()
    if not (secret.isascii() and secret.isprintable()):
        raise ConfigurationError(
            f"{variable} has a character that is not printable ASCII, so it can't be sent as a header"
        )
    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        headers={"authorization": f"Bearer {secret}"} if secret else {},
        verify=trusted(),
        event_hooks=BOUNDED,
    )


def refusal(server: str, status: int, reason: str) -> Exception:
    """Return the exception for an error status: TooLong, BadAnswer, or Unavailable if the server is busy or down."""
    sentence = f"{server} answered {status}: {short(reason)}"
    if status == 413 or (status in _TOO_LONG and _TOO_LONG[status].search(reason)):
        return TooLong(sentence)
    return Unavailable(sentence) if status in _BUSY else BadAnswer(sentence, status)


@contextmanager
def transport_named(server: str) -> Iterator[None]:
    """Turn errors of HTTP and of decoding a body into `Unavailable`, with a sentence that begins with `server`."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise Unavailable(f"{server} gave no answer in time") from error
    except (ConnectionError, httpx.HTTPError) as error:
        raise Unavailable(f"{server} can't be reached: {short(error)}") from error
    # The body isn't JSON, isn't an object, or has other fields.
    except (ValueError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise BadAnswer(f"{server} gave an invalid answer: {short(error)}") from error


def short(reason: object) -> str:
    """Return the reason on one line, truncated to 200 characters."""
    return " ".join(str(reason).split())[:200] or (
        "no reason given" if isinstance(reason, str) else type(reason).__name__
    )
