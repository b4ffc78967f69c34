"""The address, client and errors of an Ollama server, shared by its embedder and its answers."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
import msgspec
import ollama

from shared.errors import Unavailable
from shared.model_server.http import BOUNDED, CONNECT_S, refusal, short, transport_named
from shared.settings import ConfigurationError

DEFAULT_PORT = 11434
_MODEL = re.compile(r"[A-Za-z0-9._/-]+(:[A-Za-z0-9._-]+)?")


class OllamaAddress(msgspec.Struct, frozen=True):
    """A model on a server."""

    url: str  # http://host:port
    model: str

    @property
    def tagged(self) -> str:
        """Return the model's name as the server lists it: without a tag it means `latest`."""
        return self.model if ":" in self.model else f"{self.model}:latest"

    @property
    def server(self) -> str:
        """Return the server's name for error messages."""
        return f"Ollama at {self.url}"


class OllamaClient(ollama.AsyncClient):
    """The client of the package `ollama`, extended by two fields of /api/chat."""

    async def chat_uncut(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        answer_format: Mapping[str, Any] | Literal["json"] | None = None,
    ) -> AsyncIterator[ollama.ChatResponse]:
        """Return the parts of an answer to all of `messages`.

        `answer_format` is a JSON Schema that the answer keeps to, or "json" for any object.
        Unless `truncate` and `shift` are false, the server silently drops the beginning of a prompt that doesn't fit
        its context window, at first or while the answer grows.
        """
        body = {
            "model": model,
            "messages": messages,
            "options": options,
            "stream": True,
            "think": False,
            "truncate": False,
            "shift": False,
            **({"tools": tools} if tools else {}),
            **({"format": answer_format} if answer_format else {}),
        }
        parts: AsyncIterator[ollama.ChatResponse] = await self._request(
            ollama.ChatResponse, "POST", "/api/chat", json=body, stream=True
        )
        return parts


def ollama_address(variable: str, value: str) -> OllamaAddress:
    """Return the address in `ollama://host:port/model`; the port is optional.

    Raises:
        ConfigurationError: the value has another form; the sentence names `variable` and `value`.
    """
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:  # its words may have a piece of a password
        raise ConfigurationError(f"{variable}={value} is not an address") from None
    model = parts.path.removeprefix("/")
    if parts.scheme != "ollama" or not host or "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(f"{variable}={value} must look like ollama://127.0.0.1:{DEFAULT_PORT}/model")
    if not _MODEL.fullmatch(model):
        raise ConfigurationError(f"{variable}={value} names no model; it must end in one, as in …:{port}/llama3.2")
    return OllamaAddress(f"http://{f'[{host}]' if ':' in host else host}:{port}", model)


def ollama_addresses(variable: str, value: str) -> list[OllamaAddress]:
    """Return the addresses in `ollama://host:port,host:port/model`, one or more servers of the same model.

    Raises:
        ConfigurationError: the value has another form; the sentence names `variable` and the address.
    """
    scheme, _, rest = value.partition("://")
    servers, _, model = rest.partition("/")
    return [ollama_address(variable, f"{scheme}://{server}/{model}") for server in servers.split(",")]


def connect(url: str, timeout_s: float) -> OllamaClient:
    """Return a client that fails when nothing arrives for `timeout_s`; the package's default has no timeout."""
    return OllamaClient(
        url,
        timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        follow_redirects=False,
        # The protocol is plain HTTP. An empty context saves 20 ms of loading certificates, and trusts nobody.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        event_hooks=BOUNDED,
    )


async def chat_model(url: str, timeout_s: float) -> str | None:
    """Return the server's latest model that can chat, or None.

    Raises:
        Unavailable: the server didn't answer within `timeout_s`.
    """
    with failures_named(OllamaAddress(url, "")):
        async with asyncio.timeout(timeout_s), connect(url, timeout_s) as client:
            for listed in (await client.list()).models:
                name: str = listed.model or ""
                if name and "completion" in ((await client.show(name)).capabilities or ()):
                    return name
    return None


@contextmanager
def failures_named(address: OllamaAddress) -> Iterator[None]:
    """Turn every failure of the server into `Unavailable`, with a sentence for the operator.

    Raises:
        TooLong: the server refused the input as too long.
    """
    with transport_named(address.server):
        try:
            yield
        except ollama.ResponseError as error:
            if error.status_code == 404:
                raise model_missing(address) from error
            if error.status_code < 0:  # an error inside a stream
                raise Unavailable(f"{address.server} answered: {short(error.error)}") from error
            raise refusal(address.server, error.status_code, error.error) from error


def model_missing(address: OllamaAddress) -> Unavailable:
    """Return the error for a server that doesn't have the model, or no longer has it."""
    return Unavailable(
        f"{address.server} has no model {address.model!r}; run: ollama pull {address.model}", "model_missing"
    )
