"""The address, key and HTTP client of an OpenAI-compatible server, shared by its embedder and its answers."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
from pydantic import SecretStr

from shared.errors import Unavailable
from shared.model_server.http import client_with_key, refusal, short, transport_named
from shared.settings import ConfigurationError
from shared.times import seconds_of

KEY_VARIABLE: Final = "SLUICE_OPENAI_API_KEY"
EXAMPLE: Final = "openai+https://api.openai.com/v1/text-embedding-3-small"
_LONGEST_REST_S: Final = 60.0  # longest pause that a server can ask for with Retry-After

# The base ends with the version, as in /v1, /api/v1 or Gemini's /v1beta/openai; a model's name may contain slashes.
_PATH: Final = re.compile(r"(?P<base>(?>(?:/[^/]++)*?/v\d++(?:beta/openai)?(?=/)))/(?P<model>[A-Za-z0-9._:/@+-]+)")

T = TypeVar("T")


class OpenAiAddress(msgspec.Struct, frozen=True):
    """A model on a server."""

    url: str  # https://host:port/v1
    model: str

    @property
    def server(self) -> str:
        """Return the server's name for error messages."""
        return f"the model server at {self.url}"


class ModelCard(msgspec.Struct, frozen=True):
    """A server's list entry for a model; most servers give only the name."""

    id: str
    max_model_len: int | None = None  # tokens; only vLLM has it


class _Listed(msgspec.Struct, frozen=True):
    data: list[ModelCard] | None = None


class _Refusal(msgspec.Struct, frozen=True):
    error: Any = None


def openai_address(variable: str, value: str) -> OpenAiAddress:
    """Return the address in `openai+https://host:port/v1/model`, or `openai+http://…`; the port is optional.

    Raises:
        ConfigurationError: the value has another form; the sentence names `variable` and `value`.
    """
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:  # its words may have a piece of a password
        raise ConfigurationError(f"{variable}={value} is not an address") from None
    if "@" in parts.netloc:  # the value isn't shown, because the part before the @ is likely a key
        raise ConfigurationError(f"{variable} has an '@' in its address; put the key into {KEY_VARIABLE}")
    path = _PATH.fullmatch(parts.path)
    if parts.scheme not in {"openai+https", "openai+http"} or not host or parts.query or parts.fragment or path is None:
        form = f"like {EXAMPLE}; it must end in the API's version and a model's name"
        raise ConfigurationError(f"{variable}={value} must look {form}")
    at = f"{parts.scheme.removeprefix('openai+')}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    return OpenAiAddress(f"{at}{path['base']}", path["model"])


class OpenAiServer:
    """JSON over HTTP. Every failure is `Unavailable`, or TooLong if the server refuses the input as too long."""

    def __init__(self, address: OpenAiAddress, key: SecretStr, timeout_s: float) -> None:
        """Take the address, a key that may be empty, and the longest wait for an answer or its next part, in seconds.

        Raises:
            ConfigurationError: the key is not a valid header value.
        """
        self.address = address
        self._timeout_s = timeout_s
        self._rests_until = 0.0  # monotonic; the end of the pause that the server asked for
        self._client = client_with_key(KEY_VARIABLE, key, timeout_s)

    async def listed(self) -> ModelCard | None:
        """Return the server's list entry for the model; None if it has none, or the list can't be decoded.

        Raises:
            Unavailable: the server can't be reached, or refuses.
        """
        with transport_named(self.address.server):
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.get(f"{self.address.url}/models")
                await self._refuse(response)
        try:
            cards = msgspec.json.decode(response.content, type=_Listed).data or []
        except msgspec.DecodeError:
            return None
        return next((card for card in cards if card.id == self.address.model), None)

    async def post(self, path: str, body: dict[str, Any], answer: type[T]) -> T:
        """Return the server's decoded answer to `body`. Raises TooLong or Unavailable."""
        self._rest()
        with transport_named(self.address.server):
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.post(f"{self.address.url}{path}", json=body)
                await self._refuse(response)
            return msgspec.json.decode(response.content, type=answer)

    async def events(self, path: str, body: dict[str, Any], event: type[T]) -> AsyncGenerator[T, None]:
        """Yield the events of a streamed answer; closing the generator closes the connection.

        Raises:
            Unavailable: the request fails, an event is an error, or the stream ends before its `[DONE]`.
            TooLong: the server refuses the input as too long.
        """
        self._rest()
        server = self.address.server
        async with AsyncExitStack() as held:
            with transport_named(server):
                async with asyncio.timeout(self._timeout_s):
                    asked = self._client.stream("POST", f"{self.address.url}{path}", json=body)
                    response = await held.enter_async_context(asked)
                    await self._refuse(response)
            async with aclosing(_data(response)) as parts:
                while True:
                    with transport_named(server):
                        async with asyncio.timeout(self._timeout_s):
                            part = await anext(parts, None)
                    if part is None:
                        raise Unavailable(f"{server} ended its stream before the end of the answer")
                    for data in part:
                        if data == b"[DONE]":
                            return
                        with transport_named(server):
                            if error := msgspec.json.decode(data, type=_Refusal).error:
                                raise Unavailable(f"{server} answered: {short(_reason(error))}")
                            decoded = msgspec.json.decode(data, type=event)
                        yield decoded

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _rest(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise Unavailable(f"{self.address.server} asked for a pause, another {left:.0f} s of it", "rate_limited")

    async def _refuse(self, response: httpx.Response) -> None:
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
        raise refusal(self.address.server, response.status_code, reason)


def _reason(error: Any) -> str:
    """Return the sentence of an error, which is an object (OpenAI) or a string (some other servers)."""
    return str(error.get("message") or error) if isinstance(error, dict) else str(error or "")


async def _data(response: httpx.Response) -> AsyncGenerator[list[bytes], None]:
    """Yield the data of events that came together. httpx also splits at U+2028 and U+0085, which occur in answers."""
    rest = bytearray()  # joined anew with each part, a line of 32 MB would hold the event loop for ten seconds
    async for part in response.aiter_bytes():
        rest += part
        if b"\n" in part:
            *lines, last = rest.split(b"\n")
            rest = last
            yield [bytes(line[5:].strip()) for line in lines if line.startswith(b"data:")]
    yield [bytes(rest[5:].strip())] if rest.startswith(b"data:") else []
