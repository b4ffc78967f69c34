"""Embeds with a model of an OpenAI-compatible server (/v1/embeddings)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from pydantic import SecretStr

from shared.embedder.served import Served, ServedEmbedder
from shared.model_server.http import BadAnswer, TooLong
from shared.model_server.openai import KEY_VARIABLE, OpenAiAddress, OpenAiServer
from shared.settings import ConfigurationError

# Tokens of the longest input, where the server doesn't report it (vLLM does). Chunks have a few hundred tokens, so a
# figure below the true one costs little: smaller chunks.
_KNOWN: Final = (
    (re.compile(r"text-embedding-(?:3|ada)"), 8191),
    (re.compile(r"bge-m3|jina-embeddings-v[23]|qwen3-embedding|voyage-"), 8192),
    (re.compile(r"nomic-embed|embeddinggemma|gemini-embedding"), 2048),
    (re.compile(r"minilm"), 256),
)
_UNKNOWN: Final = 512
_CALLS: Final = 4  # concurrent calls: these servers are far away and have many GPUs
# Statuses that a retry doesn't change.
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 405, 422})


class _Embedding(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct, frozen=True):
    data: list[_Embedding]


def openai_embedder(address: OpenAiAddress, key: SecretStr, timeout_s: float = 60.0) -> ServedEmbedder:
    """Return the embedder of `openai+https://host/v1/model`; every call times out after `timeout_s`.

    Raises:
        ConfigurationError: the key is not a valid header value.
    """
    return ServedEmbedder(OpenAiModel(OpenAiServer(address, key, timeout_s)), _CALLS)


class OpenAiModel:
    """An embedding model of an OpenAI-compatible server.

    These servers report no digest, so the model's identity is its name and its server's URL. One name on two servers
    may be two sets of weights; an index that is refused after a move is better than one that mixes both. If a server
    changes the weights behind a name, only a new dimension shows it, so use a name with a version where there is one.

    The protocol can't forbid truncation. OpenAI's own server, vLLM and llama.cpp refuse a text that is too long;
    Ollama's /v1 truncates it silently, so use `ollama://` for an Ollama server.
    """

    def __init__(self, server: OpenAiServer) -> None:
        self._http = server

    @property
    def server(self) -> str:
        return self._http.address.server

    @property
    def name(self) -> str:
        return self._http.address.model

    async def describe(self) -> Served:
        """Return the model's identity, longest input and dimension; the dimension is found by embedding a word.

        Raises:
            Unavailable: the server can't be reached, or is too busy.
            ConfigurationError: the server refuses the key or doesn't have the model, or the model doesn't embed.
        """
        try:
            [probe] = await self.embed(["probe"])
        except (BadAnswer, TooLong) as error:
            status = getattr(error, "status", 400)
            if status not in _FOR_GOOD:
                raise
            hint = f"; is {KEY_VARIABLE} set to a key of this server?" if status in {401, 403} else ""
            raise ConfigurationError(f"SLUICE_EMBEDDER: {error}{hint}") from error
        return Served(
            identity=(self._http.address.url, self.name),
            dimension=len(probe),
            longest=await self._longest(),
        )

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        body = {"model": self.name, "input": texts, "encoding_format": "float"}
        ordered = sorted((await self._http.post("/embeddings", body, _Embeddings)).data, key=lambda each: each.index)
        if [each.index for each in ordered] != list(range(len(ordered))):
            sentence = f"{self.server} numbered its {len(ordered)} vectors {[each.index for each in ordered]}"
            raise BadAnswer(sentence, perhaps_the_text=False)
        return [each.embedding for each in ordered]

    async def ping(self) -> None:
        """Return when the server answers. Raises Unavailable if it can't be reached."""
        with suppress(BadAnswer, TooLong):  # it answers, but has no list of models
            await self._http.listed()

    async def close(self) -> None:
        await self._http.close()

    async def _longest(self) -> int:
        try:
            card = await self._http.listed()
        except (BadAnswer, TooLong):  # it embeds, but has no list of models
            card = None
        if card is not None and card.max_model_len:
            return card.max_model_len
        name = self.name.lower()
        return next((longest for pattern, longest in _KNOWN if pattern.search(name)), _UNKNOWN)
