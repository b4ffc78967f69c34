"""A model of an Ollama server, by /api/embed."""

import asyncio
import bisect
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ollama

from shared.embedder import Model, Vector
from shared.embedder.vectors import refuse_unreadable, unit
from shared.errors import Rejected, Unavailable
from shared.ollama_server import OllamaAddress, connect, failures_named
from shared.settings import ConfigurationError

BATCH: Final = 32  # texts of one call
_CALLS: Final = 2  # at once: one works while the other's answer is read
# Ollama's batch. A pooled input can't be split across batches, and a longer one has crashed the runner instead of
# being refused (ollama/ollama#14186, #16687), whatever the context length.
_LONGEST: Final = 512
_RESERVE: Final = 16  # special tokens and the longest prefix
# Before a document and before a query, for models trained with them.
_PREFIXES: Final = {"nomic": ("search_document: ", "search_query: ")}
_LETTERS: Final = re.compile(r"[A-Za-z\s]+")


class EstimatedTokens:
    """Counts without the model's tokenizer, and rather too many: a chunk that fits by this count fits.

    Two letters a token (English has four), one for a digit or sign, two for a Chinese character. The estimate never
    falls when a text grows.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the estimated number of tokens of each text."""
        return [_estimate(text) for text in texts]

    def cut(self, text: str) -> str:
        """Return the longest beginning of `text` that fits."""
        longest = text[: 2 * self.max_tokens]
        return longest[
            : bisect.bisect_right(range(1, len(longest) + 1), self.max_tokens, key=lambda n: _estimate(longest[:n]))
        ]


class OllamaEmbedder:
    """The embedder of `ollama://host:port/model`."""

    def __init__(self, address: OllamaAddress, timeout_s: float = 60.0) -> None:
        """Take the model's address; every call is given up after `timeout_s`."""
        self._address = address
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(_CALLS)
        self._before_document, self._before_query = next(
            (prefixes for word, prefixes in _PREFIXES.items() if word in address.model.lower()), ("", "")
        )
        self._client: ollama.AsyncClient | None = None
        self._model: Model | None = None
        self._tokens: EstimatedTokens | None = None

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""
        if self._model is None:
            raise RuntimeError("OllamaEmbedder is used before start()")
        return self._model

    @property
    def tokens(self) -> EstimatedTokens:
        """Return an estimate: Ollama counts only what it embeds."""
        if self._tokens is None:
            raise RuntimeError("OllamaEmbedder is used before start()")
        return self._tokens

    async def start(self) -> None:
        """Reach the server and learn the model's digest, longest input and, by embedding a word, dimension.

        Raises:
            Unavailable: the server is away or fails.
            ConfigurationError: it hasn't got the model, or the model doesn't embed.
        """
        name = self._address.model
        if self._client is None:
            self._client = connect(self._address.url, self._timeout_s)
        with failures_named(self._address):
            async with asyncio.timeout(self._timeout_s):
                listed = await self._client.list()
        digest = next((model.digest for model in listed.models if model.model == self._address.tagged), None)
        if digest is None:
            raise ConfigurationError(
                f"SLUICE_EMBEDDER: Ollama at {self._address.url} has no model {name!r}; run: ollama pull {name}"
            )
        with failures_named(self._address):
            async with asyncio.timeout(self._timeout_s):
                shown = await self._client.show(name)
        if shown.capabilities and "embedding" not in shown.capabilities:
            raise ConfigurationError(
                f"SLUICE_EMBEDDER: {name!r} on Ollama at {self._address.url} is no embedding model; "
                f"it can do {', '.join(shown.capabilities)}"
            )
        [probe] = await self._embeddings([f"{self._before_query}probe"])
        self._checked([probe], len(probe))
        # The prefixes decide a vector too.
        parts = (digest, self._before_document, self._before_query)
        longest = longest_input(shown.modelinfo or {}, shown.parameters or "")
        self._model = Model(
            name=name,
            digest=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
            dimension=len(probe),
            max_tokens=longest,
        )
        self._tokens = EstimatedTokens(longest)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector a text, in order.

        Raises:
            Unavailable: the server is away, slow, or answered another count, another dimension, or no numbers.
            Rejected: a text is blank, or the server says that one is too long.
        """
        refuse_unreadable(texts)
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH):
            async with self._turn:
                # Never cut in silence: half a chunk's vector looks like a whole one's.
                batch = [self._before_document + text for text in texts[start : start + BATCH]]
                vectors += self._checked(await self._embeddings(batch), self.model.dimension)
        return vectors

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector; a longer query is cut where our estimate reaches the model's limit.

        Raises:
            Unavailable: as for documents.
            Rejected: the query is blank.
        """
        refuse_unreadable([text])
        # Not behind the documents' turns: somebody waits for it.
        cut = self._before_query + self.tokens.cut(text)
        # The server may cut too, where our estimate was too low: half a query finds more than none.
        [vector] = self._checked(await self._embeddings([cut], truncate=True), self.model.dimension)
        return vector

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]  # the package left it bare
            self._client = None

    async def _embeddings(self, texts: Sequence[str], *, truncate: bool = False) -> Sequence[Sequence[float]]:
        if self._client is None:
            raise RuntimeError("OllamaEmbedder is used before start()")
        with failures_named(self._address):
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._client.embed(self._address.model, texts, truncate=truncate)
            except ollama.ResponseError as error:
                if error.status_code not in {400, 413}:
                    raise
                raise Rejected(
                    f"{self._address.model} refused {len(texts)} texts, the longest of "
                    f"{max(map(len, texts))} characters: {error.error}",
                    "text_too_long",
                ) from error
        if len(answer.embeddings) != len(texts):
            raise Unavailable(
                f"Ollama at {self._address.url} gave {len(answer.embeddings)} vectors for {len(texts)} texts"
            )
        return answer.embeddings

    def _checked(self, embeddings: Sequence[Sequence[float]], dimension: int) -> list[Vector]:
        for embedding in embeddings:
            if len(embedding) != dimension:
                raise Unavailable(
                    f"Ollama at {self._address.url} gave a vector of {len(embedding)} numbers; "
                    f"{self._address.model} had {dimension} at start"
                )
        try:
            return [unit(embedding) for embedding in embeddings]
        except ValueError as error:
            raise Unavailable(f"Ollama at {self._address.url} gave a damaged vector: {error}") from error


def longest_input(model_info: Mapping[str, Any], parameters: str) -> int:
    """Return how many tokens of text the server embeds whole, from what /api/show says of a model."""
    limits = [_LONGEST]
    limits += [value for key, value in model_info.items() if key.endswith(".context_length") and isinstance(value, int)]
    limits += [int(value) for value in re.findall(r"^num_ctx\s+(\d+)\s*$", parameters, re.MULTILINE)]
    return min(limits) - _RESERVE


def _estimate(text: str) -> int:
    others = _LETTERS.sub("", text)
    return (len(text) + len(others.encode(errors="replace")) + 1) // 2
