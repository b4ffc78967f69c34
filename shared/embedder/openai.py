"""A model of an OpenAI-compatible server, by /v1/embeddings."""

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

# Tokens of one input, where the server doesn't say (vLLM does). Chunks have some hundreds, so only a smaller figure
# than the true one does harm: smaller chunks.
_KNOWN: Final = (
    (re.compile(r"text-embedding-(?:3|ada)"), 8191),
    (re.compile(r"bge-m3|jina-embeddings-v[23]|qwen3-embedding|voyage-"), 8192),
    (re.compile(r"nomic-embed|embeddinggemma|gemini-embedding"), 2048),
    (re.compile(r"minilm"), 256),
)
_UNKNOWN: Final = 512
_CALLS: Final = 4  # at once: these servers are far away and have many cards
# Asked again, they would say the same.
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 405, 422})


class _Embedding(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct, frozen=True):
    data: list[_Embedding]


def openai_embedder(address: OpenAiAddress, key: SecretStr, timeout_s: float = 60.0) -> ServedEmbedder:
    """Return the embedder of `openai+https://host/v1/model`; every call is given up after `timeout_s`.

    Raises:
        ConfigurationError: the key can't stand in a header.
    """
    return ServedEmbedder(OpenAiModel(OpenAiServer(address, key, timeout_s)), _CALLS)


class OpenAiModel:
    """An embedding model of an OpenAI-compatible server.

    These servers give no digest, so the model's identity is its name and its server's URL: one name on two servers may
    be two sets of weights, and an index refused after a move is better than one with both. A server that changes the
    weights behind a name can't be noticed, except by the dimension: name the version where names have one.

    The protocol has no way to forbid cutting. OpenAI's own server, vLLM and llama.cpp refuse what is too long; Ollama's
    /v1 cuts it in silence, so an Ollama is better named as `ollama://`.
    """

    def __init__(self, server: OpenAiServer) -> None:
        self._http = server

    @property
    def server(self) -> str:
        """Return how sentences name the server."""
        return self._http.address.server

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._http.address.model

    async def describe(self) -> Served:
        """Return the model's identity, its longest input and, by embedding a word, dimension.

        Raises:
            Unavailable: the server is away, or too busy.
            ConfigurationError: it refuses the key, or has no such model, or it doesn't embed.
        """
        try:
            [probe] = await self.embed(["probe"])
        except (BadAnswer, TooLong) as error:
            status = getattr(error, "status", 400)
            if status not in _FOR_GOOD:
                raise
            raise ConfigurationError(f"SLUICE_EMBEDDER: {error}{_hint(status)}") from error
        return Served(
            identity=(self._http.address.url, self.name),
            dimension=len(probe),
            longest=await self._longest(),
        )

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each text.

        Raises:
            TooLong: the server says so. Unavailable: it fails.
        """
        body = {"model": self.name, "input": texts, "encoding_format": "float"}
        answer = await self._http.post("/embeddings", body, _Embeddings)
        ordered = sorted(answer.data, key=lambda each: each.index)
        if [each.index for each in ordered] != list(range(len(ordered))):
            sentence = f"{self.server} numbered its vectors {[each.index for each in ordered]}"
            raise BadAnswer(sentence, perhaps_the_text=False)
        return [each.embedding for each in ordered]

    async def ping(self) -> None:
        """Return when the server answers. Raises Unavailable where it is away."""
        with suppress(BadAnswer, TooLong):  # it answers, and has no list
            await self._http.listed()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _longest(self) -> int:
        try:
            card = await self._http.listed()
        except (BadAnswer, TooLong):  # it embeds, and has no list
            card = None
        if card is not None and card.max_model_len:
            return card.max_model_len
        name = self.name.lower()
        return next((longest for pattern, longest in _KNOWN if pattern.search(name)), _UNKNOWN)


def _hint(status: int) -> str:
    return f"; is {KEY_VARIABLE} set to a key of this server?" if status in {401, 403} else ""
