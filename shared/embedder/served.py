"""The embedder of a model on a server, independent of the server's protocol."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np

from shared.embedder import Model, Vector, refuse_unreadable, unit
from shared.embedder.gather import Ask, Gather, Pace
from shared.embedder.refusals import PROBE, EstimatedTokens, Refusals, Samples, beginning, estimated, halves, name_of
from shared.errors import PipelineError, Rejected, Unavailable
from shared.model_server.http import BadAnswer, TooLong


class Prefixes(NamedTuple):
    """Text put before a document or query when it is embedded. Never stored, but part of the model's identity."""

    document: str = ""
    query: str = ""


_FOR_SEARCH: Final = Prefixes(query="Represent this sentence for searching relevant passages: ")
_INSTRUCTED: Final = Prefixes(
    query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)

# The first pattern found in the model's name decides. bge-m3, all-minilm, granite, gte and OpenAI's have no prefixes.
_FAMILIES: Final = tuple(
    (re.compile(pattern), prefixes)
    for pattern, prefixes in (
        (r"nomic-embed", Prefixes("search_document: ", "search_query: ")),
        (r"\be5-.{0,99}instruct|qwen3-embedding", _INSTRUCTED),
        (r"\be5-", Prefixes("passage: ", "query: ")),
        (r"embeddinggemma", Prefixes("title: none | text: ", "task: search result | query: ")),
        (r"snowflake-arctic-embed(?:2|-.{0,99}v2)", Prefixes(query="query: ")),
        (r"mxbai-embed|snowflake-arctic-embed|\bbge-(?:small|base|large)(?!-zh)", _FOR_SEARCH),
        (r"\bbge-(?:small|base|large)-zh", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),
    )
)


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of the model's family, recognised by its name; empty ones for an unknown family."""
    name = model.lower()
    return next((prefixes for pattern, prefixes in _FAMILIES if pattern.search(name)), Prefixes())


_SPECIAL: Final = 4  # at most this many special tokens surround a text
_HALVINGS: Final = 3  # of one text: eight parts, far more than needed when the estimate is too low by half


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A server's description of its model."""

    identity: tuple[str, ...]  # models with equal identities give comparable vectors
    dimension: int
    longest: int  # tokens of the longest input, special tokens and prefix included


class EmbeddingServer(Protocol):
    """One model on one server."""

    @property
    def server(self) -> str:
        """Return the server's name for error messages."""

    @property
    def name(self) -> str:
        """Return the model's name."""

    async def describe(self) -> Served:
        """Return the server's current description of the model.

        Raises:
            Unavailable: the server can't be reached. ConfigurationError: it has no such model.
        """

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each whole text, by the model that `describe` returned.

        Raises:
            TooLong: the server accepts fewer texts, or only shorter ones.
            Unavailable: it fails, or its model has changed.
        """

    async def ping(self) -> None:
        """Return when the server answers. Raises Unavailable if it can't be reached."""

    async def close(self) -> None:
        """Close the connections."""


class _PartRefused(Exception):  # noqa: N818 - says what happened to the text
    """The server refused a part of a text that is too long for it."""

    def __init__(self, error: BadAnswer, halved: int) -> None:
        super().__init__(error.sentence)
        self.error = error
        self.halved = halved


def loop_time() -> float:
    """Return the time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()


class ServedEmbedder:
    """The embedder of a model on a server."""

    def __init__(self, server: EmbeddingServer, calls: int = 2, clock: Callable[[], float] = loop_time) -> None:
        """Take the server, and the number of concurrent calls: two, so that one queues while the other is computed."""
        self._server = server
        self._clock = clock  # seconds
        self._prefixes = prefixes_of(server.name)
        self._pace = Pace()
        self._gather = Gather(self._answer, self._pace, calls)
        self._refusals = Refusals()
        self._samples = Samples()
        self._model: Model | None = None
        self._longest_query = 0

    @property
    def model(self) -> Model:
        if self._model is None:
            raise RuntimeError("ServedEmbedder is used before start()")
        return self._model

    @property
    def tokens(self) -> EstimatedTokens:
        """Return an estimating counter: a server reports token counts only for texts that it embeds."""
        return EstimatedTokens(self.model.max_tokens)

    async def start(self) -> None:
        """Reach the server and learn the model's identity, dimension and longest input.

        Raises:
            Unavailable: the server can't be reached or fails.
            ConfigurationError: the server doesn't have the model, the model doesn't embed, or the key isn't valid.
        """
        served = await self._server.describe()
        self._model = Model(
            name=self._server.name,
            # The prefixes change a vector, too.
            digest=hashlib.sha256("\n".join((*served.identity, *self._prefixes)).encode()).hexdigest(),
            dimension=served.dimension,
            max_tokens=served.longest - _SPECIAL - estimated(self._prefixes.document),
        )
        self._longest_query = served.longest - _SPECIAL - estimated(self._prefixes.query)

    async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
        """Return one unit vector per text, in order.

        A text that fits by our estimate but is too long for the server is embedded in parts: its vector is the parts'
        mean, weighted by their lengths.

        Raises:
            Unavailable: the server can't be reached, is slow, changed its model, or returned a wrong number of
                vectors, a wrong dimension, or values that aren't finite.
            RetryLater: the server refuses one text and accepts others; the vectors of those are kept for the retry.
            Rejected: a text is blank, longer than the model accepts, or was refused repeatedly; no text is embedded
                then.
        """
        refuse_unreadable(texts)
        for position, (text, count) in enumerate(zip(texts, self.tokens.count(texts), strict=True)):
            if count > self.model.max_tokens:
                raise Rejected(
                    f"text {position} of {len(texts)} has {len(text)} characters, an estimated {count} tokens; "
                    f"{self.model.name} accepts at most {self.model.max_tokens}",
                    "text_too_long",
                )
        for text in texts:
            if isinstance(error := self._known_refusal(text), Rejected):
                raise error
        return await self._gather.vectors(texts, flow)

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector; a longer query is truncated where our estimate reaches the model's limit.

        Raises:
            Unavailable: as for documents.
            Rejected: the query is blank, or the server refuses even its beginning as too long.
        """
        refuse_unreadable([text])
        # Sent directly, not queued behind the documents: a person waits for the result.
        asked = beginning(text.strip(), self._longest_query)
        for _ in range(_HALVINGS + 1):
            try:
                [vector] = await self._embed([self._prefixes.query + asked])
            except TooLong:
                # Our estimate was too low. Half a query finds more than none.
                asked = asked[: len(asked) // 2 or 1]
            else:
                return vector
        raise Rejected(
            f"{self.model.name} refuses even the first {len(asked)} characters of the query as too long",
            "text_too_long",
        )

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, from one call that doesn't wait behind the documents.

        Raises:
            Unavailable: as for documents. Rejected: one of them is blank, or longer than the server accepts.
        """
        refuse_unreadable([question, *texts])
        asked = self._prefixes.query + beginning(question.strip(), self._longest_query)
        longest = self.model.max_tokens
        try:
            query, *vectors = await self._embed(
                [asked, *(self._prefixes.document + beginning(text, longest) for text in texts)]
            )
        except TooLong as error:
            raise Rejected(f"a text can't be compared: {error}", "text_too_long") from error
        return [float(query @ vector) for vector in vectors]

    async def ping(self) -> None:
        await self._server.ping()

    async def close(self) -> None:
        """Cancel pending texts and close the connections."""
        await self._gather.close()
        await self._server.close()

    async def _answer(self, asks: Sequence[Ask]) -> None:
        open_ = []
        for ask in asks:
            if (error := self._known_refusal(ask.text)) is None:
                open_.append(ask)
            else:
                ask.fail(error)
        if open_:
            await self._ask(open_)

    async def _ask(self, asks: Sequence[Ask], *, works: bool = False) -> None:
        """Settle each ask. `works`: the server has just embedded something, so a refusal may be due to one text."""
        try:
            vectors = await self._documents([ask.text for ask in asks])
        except TooLong as error:
            # The error is about the whole call and doesn't say which text is too long.
            if len(asks) == 1:
                await self._answer_in_parts(asks[0], error)
            else:
                await self._ask_halves(asks, works=works)
        except BadAnswer as error:
            if len(asks) == 1:
                await self._refused(asks[0], error)
                return
            # If the server embeds nothing now, bisecting for the text would waste 127 calls.
            if not works:
                await self._check(error, PROBE)
            await self._ask_halves(asks, works=True)
        else:
            for ask, vector in zip(asks, vectors, strict=True):
                self._refusals.embedded(self._name(ask.text))
                self._samples.embedded(ask.text)
                ask.give(vector)

    async def _ask_halves(self, asks: Sequence[Ask], *, works: bool) -> None:
        middle = len(asks) // 2
        await self._ask(asks[:middle], works=works)
        await self._ask(asks[middle:], works=works)

    async def _refused(self, ask: Ask, error: BadAnswer, *, halved: int = 0) -> None:
        """Fail the ask of a text that the server refused alone, or of which it refused a part, `halved` times split."""
        like = ask.text[: len(ask.text) >> halved or 1]
        try:
            await self._check(error, self._samples.like(like))
        except Unavailable as fault:
            ask.fail(fault)
            return
        beside = [self._name(text) for text in ask.beside]
        self._refusals.refused(self._name(ask.text), beside, error.sentence, self._clock())
        ask.fail(self._known_refusal(ask.text) or error)

    async def _check(self, error: BadAnswer, sample: str) -> None:
        """Return if the server embeds the sample, so that `error` may be the fault of a text.

        Raises:
            Unavailable: the server doesn't embed it, or the error is never a text's fault.
        """
        try:
            if error.perhaps_the_text:
                await self._embed([self._prefixes.document + sample])
                return
        except (TooLong, BadAnswer):
            self._samples.refused(sample)
        except Unavailable:  # more specific than `error`
            self._pace.failed()
            raise
        self._pace.failed()
        raise error

    def _name(self, text: str) -> str:
        return name_of(text, self.model.digest)

    def _known_refusal(self, text: str) -> PipelineError | None:
        """Return the error for a text that the server refused recently, or None where it must be asked."""
        return self._refusals.error(self._name(text), len(text), self._clock())

    async def _documents(self, texts: Sequence[str]) -> list[Vector]:
        began = self._clock()
        try:
            vectors = await self._embed([self._prefixes.document + text for text in texts])
        except BadAnswer:  # says nothing about the server's speed, and may be due to one text
            raise
        except Unavailable:
            self._pace.failed()
            raise
        self._pace.took(len(texts), self._clock() - began)
        return vectors

    async def _answer_in_parts(self, ask: Ask, refusal: TooLong) -> None:
        try:
            ask.give(await self._in_parts(ask.text, refusal))
        except TooLong as error:
            ask.fail(Rejected(f"a text of {len(ask.text)} characters can't be embedded: {error}", "text_too_long"))
        except _PartRefused as refused:
            await self._refused(ask, refused.error, halved=refused.halved)
        except Unavailable as error:
            ask.fail(error)

    async def _in_parts(self, text: str, refusal: TooLong, halved: int = 0) -> Vector:
        parts = halves(text) if halved < _HALVINGS else None
        if parts is None:
            raise refusal
        vectors = []
        for part in parts:
            try:
                vectors += await self._documents([part])
            except TooLong as error:
                vectors.append(await self._in_parts(part, error, halved + 1))
            except BadAnswer as error:
                raise _PartRefused(error, halved + 1) from error
        return unit(np.average(vectors, axis=0, weights=[len(part) for part in parts]))

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        embeddings = await self._server.embed(texts)
        server = self._server.server
        if len(embeddings) != len(texts):
            sentence = f"{server} returned {len(embeddings)} vectors for {len(texts)} texts"
            raise BadAnswer(sentence, perhaps_the_text=False)
        for embedding in embeddings:
            if len(embedding) != self.model.dimension:
                raise BadAnswer(
                    f"{server} returned a vector of {len(embedding)} numbers; "
                    f"{self.model.name} had {self.model.dimension} at the start",
                    perhaps_the_text=False,
                )
        try:
            return [unit(embedding) for embedding in embeddings]
        except (ValueError, TypeError) as error:
            raise BadAnswer(f"{server} returned a damaged vector: {error}") from error
