"""The address of an Ollama server and what it says of its models, shared by its embedder and its answers."""

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shared.errors import Unavailable
from shared.model_server.http import JsonServer
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


class ListedModel(msgspec.Struct, frozen=True):
    """A model of the server's list."""

    model: str = ""
    digest: str | None = None


class _Listed(msgspec.Struct, frozen=True):
    models: list[ListedModel]


class ShownModel(msgspec.Struct, frozen=True):
    """What the server says of a model."""

    capabilities: list[str] | None = None
    model_info: dict[str, Any] | None = None
    parameters: str | None = None


class OllamaServer(JsonServer):
    """A server, asked for one model. A model that it doesn't have is Unavailable, as it may be pulled."""

    def __init__(self, address: OllamaAddress, timeout_s: float) -> None:
        """Take the address, and the longest wait for an answer or its next part, in seconds."""
        super().__init__(address.server, address.url, timeout_s)
        self.name = address.model
        self._address = address

    async def models(self) -> list[ListedModel]:
        """Return the server's models, the latest first."""
        return (await self.get("/api/tags", _Listed)).models

    async def show(self, model: str) -> ShownModel:
        """Return what the server says of the model."""
        return await self.post("/api/show", {"model": model}, ShownModel)

    def _refused(self, status: int, reason: str) -> Exception:
        return model_missing(self._address) if status == 404 else super()._refused(status, reason)


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


async def chat_model(url: str, timeout_s: float) -> str | None:
    """Return the server's latest model that can chat, or None.

    Raises:
        Unavailable: the server didn't answer within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s), OllamaServer(OllamaAddress(url, ""), timeout_s) as server:
        for listed in await server.models():
            if listed.model and "completion" in ((await server.show(listed.model)).capabilities or ()):
                return listed.model
    return None


def model_missing(address: OllamaAddress) -> Unavailable:
    """Return the error for a server that doesn't have the model, or no longer has it."""
    return Unavailable(
        f"{address.server} has no model {address.model!r}; run: ollama pull {address.model}", "model_missing"
    )
