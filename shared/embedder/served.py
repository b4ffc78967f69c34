"""A model behind HTTP: what is the same whatever the server speaks."""

import hashlib
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Final, Protocol

import msgspec
import numpy as np

from shared.embedder import Model, Vector
from shared.embedder.estimate import EstimatedTokens, beginning, estimated, halves
from shared.embedder.gather import Ask, Gather, Pace
from shared.embedder.prefixes import prefixes_of
from shared.embedder.vectors import refuse_unreadable, unit
from shared.errors import Rejected, Unavailable
from shared.model_server.http import BadAnswer, TooLong

_SPECIAL: Final = 4  # tokens that a model puts around every text, at most
_HALVINGS: Final = 3  # of one text: eight parts, far more than an estimate that is too low by half needs


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of its model."""

    identity: tuple[str, ...]  # equal ones give comparable vectors
    dimension: int
    longest: int  # tokens of one input, special tokens and prefix included


class EmbeddingServer(Protocol):
    """One model on one server."""

    @property
    def server(self) -> str:
        """Return how sentences name the server."""
        ...

    @property
    def name(self) -> str:
        """Return the model's name."""
        ...

    async def describe(self) -> Served:
        """Return what the server says of the model, now.

        Raises:
            Unavailable: the server is away. ConfigurationError: it has no such model.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each text by the model that `describe` told of, none of them cut.

        Raises:
            TooLong: the server takes fewer texts, or a shorter one. Unavailable: it fails, or changed its model.
        """
        ...

    async def ping(self) -> None:
        """Return when the server answers. Raises Unavailable where it is away."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class ServedEmbedder:
    """The embedder of a model on a server."""

    def __init__(self, server: EmbeddingServer, calls: int = 2) -> None:
        """Take the server, and how many calls may be there at once: two, so that one waits while another is read."""
        self._server = server
        self._prefixes = prefixes_of(server.name)
        self._pace = Pace()
        self._gather = Gather(self._answer, self._pace, calls)
        self._model: Model | None = None
        self._longest_query = 0

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""
        if self._model is None:
            raise RuntimeError("ServedEmbedder is used before start()")
        return self._model

    @property
    def tokens(self) -> EstimatedTokens:
        """Return an estimate: a server counts only what it embeds."""
        return EstimatedTokens(self.model.max_tokens)

    async def start(self) -> None:
        """Reach the server and learn the model's identity, dimension and longest input.

        Raises:
            Unavailable: the server is away or fails.
            ConfigurationError: it hasn't got the model, the model doesn't embed, or the key isn't valid.
        """
        served = await self._server.describe()
        self._model = Model(
            name=self._server.name,
            # The prefixes decide a vector too.
            digest=hashlib.sha256("\n".join((*served.identity, *self._prefixes)).encode()).hexdigest(),
            dimension=served.dimension,
            max_tokens=served.longest - _SPECIAL - estimated(self._prefixes.document),
        )
        self._longest_query = served.longest - _SPECIAL - estimated(self._prefixes.query)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector a text, in order.

        A text that the server finds too long, though it fits by our count, is embedded in parts: its vector is the
        parts' mean, weighted by their lengths.

        Raises:
            Unavailable: the server is away, slow, changed its model, or answered another count, dimension, or no
                numbers.
            Rejected: a text is blank, or longer than the model takes; none of the others is embedded then.
        """
        refuse_unreadable(texts)
        for position, (text, count) in enumerate(zip(texts, self.tokens.count(texts), strict=True)):
            if count > self.model.max_tokens:
                raise Rejected(
                    f"text {position} of {len(texts)} has {len(text)} characters, by our estimate {count} tokens, "
                    f"more than the {self.model.max_tokens} that {self.model.name} takes",
                    "text_too_long",
                )
        return await self._gather.vectors(texts)

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector; a longer query is cut where our estimate reaches the model's limit.

        Raises:
            Unavailable: as for documents.
            Rejected: the query is blank, or the server takes not even its beginning.
        """
        refuse_unreadable([text])
        # Not behind the documents: somebody waits for it.
        asked = beginning(text.strip(), self._longest_query)
        for _ in range(_HALVINGS + 1):
            try:
                [vector] = await self._embed([self._prefixes.query + asked])
            except TooLong:
                # Our estimate was too low. Half a query finds more than none.
                asked = asked[: len(asked) // 2 or 1]
            else:
                return vector
        raise Rejected(f"{self.model.name} takes not even {len(asked)} characters of the query", "text_too_long")

    async def ping(self) -> None:
        """Return when the server answers, not behind the texts it embeds.

        Raises:
            Unavailable: it is away.
        """
        await self._server.ping()

    async def close(self) -> None:
        """Give up what is asked for, and close the connections."""
        await self._gather.close()
        await self._server.close()

    async def _answer(self, asks: Sequence[Ask]) -> None:
        try:
            vectors = await self._documents([ask.text for ask in asks])
        except TooLong as error:
            # It says that of the whole call, and not which text it means.
            if len(asks) == 1:
                await self._answer_in_parts(asks[0], error)
                return
            await self._answer(asks[: len(asks) // 2])
            await self._answer(asks[len(asks) // 2 :])
        except BadAnswer:
            # Some text may be what it stumbles over: that holds up its own document, and no other.
            callers = [list(group) for _, group in groupby(asks, key=lambda ask: id(ask.caller))]
            if len(callers) == 1:
                raise
            for own in callers:
                try:
                    await self._answer(own)
                except Unavailable as error:
                    for ask in own:
                        ask.fail(error)
        else:
            for ask, vector in zip(asks, vectors, strict=True):
                ask.give(vector)

    async def _documents(self, texts: Sequence[str]) -> list[Vector]:
        began = time.monotonic()
        try:
            vectors = await self._embed([self._prefixes.document + text for text in texts])
        except Unavailable:
            self._pace.failed()
            raise
        self._pace.took(len(texts), time.monotonic() - began)
        return vectors

    async def _answer_in_parts(self, ask: Ask, refusal: TooLong) -> None:
        try:
            ask.give(await self._in_parts(ask.text, refusal))
        except TooLong as error:
            ask.fail(Rejected(f"a text of {len(ask.text)} characters can't be embedded: {error}", "text_too_long"))
        except Unavailable as error:
            ask.fail(error)

    async def _in_parts(self, text: str, refusal: TooLong, left: int = _HALVINGS) -> Vector:
        parts = halves(text) if left else None
        if parts is None:
            raise refusal
        vectors = []
        for part in parts:
            try:
                vectors += await self._documents([part])
            except TooLong as error:
                vectors.append(await self._in_parts(part, error, left - 1))
        return unit(np.average(vectors, axis=0, weights=[len(part) for part in parts]))

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        embeddings = await self._server.embed(texts)
        server = self._server.server
        if len(embeddings) != len(texts):
            raise BadAnswer(f"{server} gave {len(embeddings)} vectors for {len(texts)} texts")
        for embedding in embeddings:
            if len(embedding) != self.model.dimension:
                raise BadAnswer(
                    f"{server} gave a vector of {len(embedding)} numbers; "
                    f"{self.model.name} had {self.model.dimension} at start"
                )
        try:
            return [unit(embedding) for embedding in embeddings]
        except (ValueError, TypeError) as error:
            raise BadAnswer(f"{server} gave a damaged vector: {error}") from error
