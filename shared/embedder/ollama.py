"""Embeds with a model of an Ollama server (/api/embed)."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.embedder.served import Served, ServedEmbedder, prefixes_of
from shared.embedder.servers import Servers
from shared.errors import Unavailable
from shared.model_server.http import TooLong
from shared.model_server.ollama import OllamaAddress, OllamaClient, connect, failures_named, model_missing
from shared.settings import ConfigurationError

# Ollama's batch size in tokens. A pooled input can't be split across batches, and a longer one has crashed the runner
# instead of being refused (ollama/ollama#14186, #16687), whatever the context length.
_LONGEST: Final = 512
# With Ollama's default of five minutes, many documents and searches would wait for the model to be loaded from disk.
# Not for ever, because another model may need the memory.
KEEP_ALIVE: Final = "30m"


_CALLS: Final = 2  # concurrent calls for each server: one queues while the other is computed


def ollama_embedder(*addresses: OllamaAddress, timeout_s: float = 60.0) -> ServedEmbedder:
    """Return the embedder of a model on one or more servers; every call times out after `timeout_s`."""
    models = [OllamaModel(address, timeout_s) for address in addresses]
    return ServedEmbedder(models[0] if len(models) == 1 else Servers(models), _CALLS * len(models))


class OllamaModel:
    """An embedding model of an Ollama server. Its identity is the digest of its weights."""

    def __init__(self, address: OllamaAddress, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._client: OllamaClient | None = None
        self._digest: str | None = None

    @property
    def server(self) -> str:
        return self._address.server

    @property
    def name(self) -> str:
        """Return the model's name, with its tag if the setting has one."""
        return self._address.model

    async def describe(self) -> Served:
        """Return the model's digest, longest input and dimension; the dimension is found by embedding a word.

        Raises:
            Unavailable: the server can't be reached or fails.
            ConfigurationError: the server doesn't have the model, or the model doesn't embed.
        """
        name = self._address.model
        digest = await self._digest_now()
        if digest is None:
            raise ConfigurationError(f"SLUICE_EMBEDDER: {self.server} has no model {name!r}; run: ollama pull {name}")
        with failures_named(self._address):
            async with asyncio.timeout(self._timeout_s):
                shown = await self._connected().show(name)
        if shown.capabilities and "embedding" not in shown.capabilities:
            raise ConfigurationError(
                f"SLUICE_EMBEDDER: {name!r} on {self.server} is not an embedding model; "
                f"it can do {', '.join(shown.capabilities)}"
            )
        try:
            [probe] = await self._embeddings([f"{prefixes_of(name).query}probe"])
        except TooLong as error:
            raise ConfigurationError(
                f"SLUICE_EMBEDDER: {name!r} on {self.server} refuses even one word as too long: {error}"
            ) from error
        self._digest = digest
        return Served(
            identity=(digest,),
            dimension=len(probe),
            longest=longest_input(shown.modelinfo or {}, shown.parameters or ""),
        )

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each whole text, by the model that `describe` returned.

        Raises:
            TooLong: one of the texts is too long; the server doesn't say which.
            Unavailable: the server fails, or `ollama pull` has replaced the model since. The new model's vectors are
                discarded, as they can't be compared with the old one's.
        """
        embeddings = await self._embeddings(texts)
        # Checked after the embedding, which costs 1 ms: an unchanged digest now was unchanged before, too.
        digest = await self._digest_now()
        if digest is None:
            raise model_missing(self._address)
        if digest != self._digest:
            raise Unavailable(
                f"{self.server} has replaced {self.name!r}: its digest is {digest[:12]} and was "
                f"{(self._digest or 'unknown')[:12]} at the start; restart Sluice, or pull the old model",
                "model_changed",
            )
        return embeddings

    async def ping(self) -> None:
        await self._digest_now()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]  # the package left it bare
            self._client = None

    def _connected(self) -> OllamaClient:
        if self._client is None:
            self._client = connect(self._address.url, self._timeout_s)
        return self._client

    async def _digest_now(self) -> str | None:
        with failures_named(self._address):
            async with asyncio.timeout(self._timeout_s):
                listed = await self._connected().list()
        return next((model.digest for model in listed.models if model.model == self._address.tagged), None)

    async def _embeddings(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        # `truncate=False`: the vector of a truncated chunk could not be told from that of a whole one.
        with failures_named(self._address):
            async with asyncio.timeout(self._timeout_s):
                answer = await self._connected().embed(self.name, texts, truncate=False, keep_alive=KEEP_ALIVE)
        return answer.embeddings


def longest_input(model_info: Mapping[str, Any], parameters: str) -> int:
    """Return the longest input in tokens, from the model_info and parameters of /api/show."""
    limits = [_LONGEST]
    limits += [value for key, value in model_info.items() if key.endswith(".context_length") and isinstance(value, int)]
    limits += [int(value) for value in re.findall(r"^num_ctx\s+(\d+)\s*$", parameters, re.MULTILINE)]
    return min(limits)
