"""Builds the embedder that the setting names, once in a process however many generations use it."""

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from shared.embedder import Embedder
from shared.settings import ConfigurationError

if TYPE_CHECKING:  # numpy is slow to import
    from shared.embedder.in_process import InProcess
    from shared.embedder.minilm import Precision

_NO_KEY = SecretStr("")
BUILT_IN: Final[dict[str, "Precision"]] = {"minilm:": "float32", "minilm:int8": "int8"}  # models that need no server


def open_embedder(setting: str, openai_api_key: SecretStr = _NO_KEY) -> Embedder:
    """Return the embedder that `setting` names, not started.

    The setting is `minilm:`, `minilm:int8`, `onnx:FOLDER?pooling=cls`, `ollama://host:port/model` (or several servers: `ollama://a:11434,b/model`),
    or `openai+https://host:port/v1/model`; only the last sends the key.

    Raises:
        ConfigurationError: the setting has another form; the sentence names SLUICE_EMBEDDER and the value.
    """
    # Each adapter is imported only where it is used: onnxruntime and the clients are slow to import.
    if (embedder := in_process(setting)) is not None:
        return embedder
    if setting.startswith("ollama:"):
        from shared.embedder.ollama import ollama_embedder
        from shared.model_server.ollama import ollama_addresses

        return ollama_embedder(*ollama_addresses("SLUICE_EMBEDDER", setting))
    if setting.startswith("openai+"):
        from shared.embedder.openai import openai_embedder
        from shared.model_server.openai import openai_address

        return openai_embedder(openai_address("SLUICE_EMBEDDER", setting), openai_api_key)
    raise ConfigurationError(
        f"SLUICE_EMBEDDER={setting} must be minilm:, minilm:int8, onnx:FOLDER, ollama://host:11434/model or openai+https://host/v1/model"
    )


def in_process(setting: str) -> "InProcess | None":
    """Return the embedder if its model runs in this process, else None. Raises ConfigurationError."""
    if setting in BUILT_IN:
        from shared.embedder.minilm import MiniLm

        return MiniLm(precision=BUILT_IN[setting])
    if setting.startswith("onnx:"):
        from shared.embedder.in_process import onnx_embedder

        return onnx_embedder(setting)
    return None


class EmbedderPool:
    """Opens embedders by their address, and closes all of them together."""

    def __init__(self, openai_api_key: SecretStr) -> None:
        self._key = openai_api_key
        self._open: dict[str, Embedder] = {}
        self._turn = asyncio.Lock()

    async def get(self, address: str) -> Embedder:
        """Return the embedder at the address, started.

        Raises:
            Unavailable: its server is away. ConfigurationError: there is no such model, or the address is wrong.
        """
        async with self._turn:
            if address not in self._open:
                embedder = open_embedder(address, self._key)
                try:
                    await embedder.start()
                except BaseException:
                    await embedder.close()
                    raise
                self._open[address] = embedder
            return self._open[address]

    async def keep_only(self, addresses: frozenset[str]) -> None:
        """Close the embedders that no address names."""
        async with self._turn:
            for address in self._open.keys() - addresses:
                await self._open.pop(address).close()

    async def close(self) -> None:
        """Close all of them."""
        await self.keep_only(frozenset())
