"""The address and key of an OpenAI-compatible server, shared by its embedder and its answers."""

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from shared.model_server.http import JsonServer
from shared.settings import ConfigurationError

KEY_VARIABLE: Final = "SLUICE_OPENAI_API_KEY"
EXAMPLE: Final = "openai+https://api.openai.com/v1/text-embedding-3-small"

# The base ends with the version, as in /v1, /api/v1 or Gemini's /v1beta/openai; a model's name may contain slashes.
_PATH: Final = re.compile(r"(?P<base>(?>(?:/[^/]++)*?/v\d++(?:beta/openai)?(?=/)))/(?P<model>[A-Za-z0-9._:/@+-]+)")


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
    if parts.scheme not in {"openai+https", "openai+http"} or not host or parts.query or parts.fragment:
        raise ConfigurationError(f"{variable}={value} must look like {EXAMPLE}")
    if path is None:
        raise ConfigurationError(
            f"{variable}={value} must end in the API's version and a model's name, as in {EXAMPLE}"
        )
    named = f"[{host}]" if ":" in host else host
    scheme = parts.scheme.removeprefix("openai+")
    return OpenAiAddress(f"{scheme}://{named}{f':{port}' if port else ''}{path['base']}", path["model"])


class OpenAiServer(JsonServer):
    """A server of this protocol."""

    def __init__(self, address: OpenAiAddress, key: SecretStr, timeout_s: float) -> None:
        """Take the address, a key that may be empty, and the longest wait. Raises as `JsonServer`."""
        super().__init__(address.server, address.url, timeout_s, KEY_VARIABLE, key)
        self.name = address.model

    async def listed(self) -> ModelCard | None:
        """Return the server's list entry for the model; None if it has none.

        Raises:
            Unavailable: the server can't be reached, or refuses, or has no such list.
        """
        cards = (await self.get("/models", _Listed)).data or []
        return next((card for card in cards if card.id == self.name), None)

    def _data(self, line: bytes) -> bytes:
        name, _, data = line.partition(b":")
        # Others: a keep-alive comment, an event's name, or the blank line after an event.
        return data.strip() if name == b"data" else b""
