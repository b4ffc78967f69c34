"""What adapters of model servers share, whatever the protocol: JSON over HTTP, and the classes of failures."""

import asyncio
import re
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import cache
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec
from pydantic import SecretStr

from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.times import seconds_of

T = TypeVar("T")

_CONNECT_S: Final = 5.0
_LONGEST_REST_S: Final = 60.0  # longest pause that a server can ask for with Retry-After
_NO_KEY: Final = SecretStr("")
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


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer, unpacked, which raises ValueError beyond `MOST_ANSWER`. 500 kB of gzip may be 500 MB."""

    def __init__(self, sent: httpx.AsyncByteStream, *, packed: bool) -> None:
        self._sent = sent
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ANSWER
        async for part in self._sent:
            rest = part
            while rest:
                shown, rest = self._unpacked(rest)
                left -= len(shown)
                if left < 0:
                    raise ValueError(f"it has more than {MOST_ANSWER >> 20} MB")
                yield shown

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
_BOUNDED: Final[dict[str, list[Callable[..., Any]]]] = {"request": [_ask_for_gzip], "response": [_bounded]}


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
        timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        headers={"authorization": f"Bearer {secret}"} if secret else {},
        verify=trusted(),
        event_hooks=_BOUNDED,
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


class _Refusal(msgspec.Struct, frozen=True):
    error: Any = None


class JsonServer:
    """JSON over HTTP. Every failure is `Unavailable`, or TooLong if the server refuses the input as too long."""

    def __init__(self, server: str, url: str, timeout_s: float, variable: str = "", key: SecretStr = _NO_KEY) -> None:
        """Take its name for error messages, and the longest wait for an answer or its next part, in seconds.

        Raises:
            ConfigurationError: the key of the setting `variable` is not a valid header value.
        """
        self.server = server
        self.url = url
        self._timeout_s = timeout_s
        self._rests_until = 0.0  # monotonic; the end of the pause that the server asked for
        self._client = client_with_key(variable, key, timeout_s)

    async def get(self, path: str, answer: type[T]) -> T:
        """Return the server's decoded answer."""
        return await self._answer("GET", path, answer)

    async def post(self, path: str, body: dict[str, Any], answer: type[T]) -> T:
        """Return the server's decoded answer to `body`."""
        self._rest()
        return await self._answer("POST", path, answer, json=body)

    async def events(self, path: str, body: dict[str, Any], event: type[T]) -> AsyncGenerator[T, None]:
        """Yield the events of a streamed answer; closing the generator closes the connection.

        Raises:
            Unavailable: the request fails, an event is an error, or the stream ends before its `[DONE]`; who reads it
                may know its end otherwise.
            TooLong: the server refuses the input as too long.
        """
        self._rest()
        with transport_named(self.server):
            client = self._open()
            request = client.build_request("POST", f"{self.url}{path}", json=body)
            async with asyncio.timeout(self._timeout_s):
                response = await client.send(request, stream=True)
        try:
            with transport_named(self.server):
                async with asyncio.timeout(self._timeout_s):
                    await self._check(response)
            async with aclosing(_lines(response)) as lines:
                while True:
                    with transport_named(self.server):
                        async with asyncio.timeout(self._timeout_s):
                            line = await anext(lines, None)
                        if line is None:
                            raise Unavailable(f"{self.server} ended its stream before the end of the answer")
                        if not (data := self._data(line)):
                            continue
                        if data == b"[DONE]":
                            return
                        if error := msgspec.json.decode(data, type=_Refusal).error:
                            raise Unavailable(f"{self.server} answered: {short(_reason(error))}")
                        decoded = msgspec.json.decode(data, type=event)
                    yield decoded
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _data(self, line: bytes) -> bytes:
        """Return the JSON of a stream's line; empty: it has none."""
        return line.strip()

    def _refused(self, status: int, reason: str) -> Exception:
        """Return the exception for an error status."""
        return refusal(self.server, status, reason)

    async def _answer(self, method: str, path: str, answer: type[T], **body: Any) -> T:
        with transport_named(self.server):
            async with asyncio.timeout(self._timeout_s):
                response = await self._open().request(method, f"{self.url}{path}", **body)
                await self._check(response)
            return msgspec.json.decode(response.content, type=answer)

    def _open(self) -> httpx.AsyncClient:
        """Return the client. Raises Unavailable after `close`: who still asks, such as a probe, can ask again later."""
        if self._client.is_closed:
            raise Unavailable(f"{self.server} is not asked any more")
        return self._client

    def _rest(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise Unavailable(f"{self.server} asked for a pause, another {left:.0f} s of it", "rate_limited")

    async def _check(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        with_body = (await response.aread()).decode(errors="replace")
        try:
            reason = _reason(msgspec.json.decode(with_body, type=_Refusal).error) or with_body
        except msgspec.DecodeError:
            reason = with_body
        wanted = seconds_of(response.headers.get("retry-after", ""))
        if response.status_code in {429, 503} and wanted is not None:
            self._rests_until = time.monotonic() + min(wanted, _LONGEST_REST_S)
        raise self._refused(response.status_code, reason)


def _reason(error: Any) -> str:
    """Return the sentence of an error, which is an object (OpenAI) or a string (some other servers)."""
    return str(error.get("message") or error) if isinstance(error, dict) else str(error or "")


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body. httpx's own method also splits at U+2028 and U+0085, which occur in answers."""
    rest = bytearray()  # joined anew with each part, a line of 32 MB would hold the event loop for ten seconds
    async for data in response.aiter_bytes():
        *lines, last = data.split(b"\n")
        for line in lines:
            yield bytes(rest + line)
            rest.clear()
        rest += last
    if rest:
        yield bytes(rest)
