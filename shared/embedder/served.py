"""A model behind HTTP: what is the same whatever the server speaks."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from shared.embedder import Model, Vector
from shared.embedder.estimate import EstimatedTokens, beginning, estimated, halves
from shared.embedder.gather import Ask, Gather, Pace
from shared.embedder.prefixes import prefixes_of
from shared.embedder.refusals import (
    KEPT_S,
    PROBE,
    Again,
    Refusals,
    Samples,
    ServerAtFault,
    TextAtFault,
    Verdict,
    name_of,
)
from shared.embedder.vectors import refuse_unreadable, unit
from shared.errors import PipelineError, Rejected, RetryLater, Unavailable
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


class _PartRefused(Exception):  # noqa: N818 - says what happened to the text
    """The server refused a part of a text that is too long for it."""

    def __init__(self, error: BadAnswer, halved: int) -> None:
        super().__init__(error.sentence)
        self.error = error
        self.halved = halved


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class ServedEmbedder:
    """The embedder of a model on a server."""

    def __init__(self, server: EmbeddingServer, calls: int = 2, clock: Callable[[], float] = _loop_time) -> None:
        """Take the server, and how many calls may be there at once: two, so that one waits while another is read."""
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
            RetryLater: the server refuses a text and takes others; the rest is embedded, and kept for the next try.
            Rejected: a text is blank, longer than the model takes, or was refused again and again; none of the others
                is embedded then.
        """
        refuse_unreadable(texts)
        for position, (text, count) in enumerate(zip(texts, self.tokens.count(texts), strict=True)):
            if count > self.model.max_tokens:
                raise Rejected(
                    f"text {position} of {len(texts)} has {len(text)} characters, by our estimate {count} tokens, "
                    f"more than the {self.model.max_tokens} that {self.model.name} takes",
                    "text_too_long",
                )
        for text in texts:
            if isinstance(error := self._known_refusal(text), Rejected):
                raise error
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

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, from one call that doesn't wait behind the documents.

        Raises:
            Unavailable: as for documents. Rejected: one of them is blank, or longer than the server takes.
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
        open_ = []
        for ask in asks:
            if (error := self._known_refusal(ask.text)) is None:
                open_.append(ask)
            else:
                ask.fail(error)
        if open_:
            await self._ask(open_)

    async def _ask(self, asks: Sequence[Ask], *, works: bool = False) -> None:
        """Settle each ask; `works`: the server has just embedded something, so a refusal may be one text's."""
        try:
            vectors = await self._documents([ask.text for ask in asks])
        except TooLong as error:
            # It says that of the whole call, and not which text it means.
            if len(asks) == 1:
                await self._answer_in_parts(asks[0], error)
            else:
                await self._ask_halves(asks, works=works)
        except BadAnswer as error:
            if len(asks) == 1:
                await self._refused(asks[0], error)
                return
            # Where nothing is embedded now, to look for the text would be 127 calls in vain.
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
        """Fail the ask of a text that the server refused alone, or a part of it that was `halved` so many times."""
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
        """Return where `error` may be the fault of a text, because the server embeds the sample.

        Raises:
            Unavailable: it doesn't, or the error is never a text's fault.
        """
        try:
            if error.perhaps_the_text:
                await self._embed([self._prefixes.document + sample])
                return
        except (TooLong, BadAnswer):
            self._samples.refused(sample)
        except Unavailable:  # says more than the error does
            self._pace.failed()
            raise
        self._pace.failed()
        raise error

    def _name(self, text: str) -> str:
        return name_of(text, self.model.digest)

    def _known_refusal(self, text: str) -> PipelineError | None:
        """Return what is raised of a text that needn't be asked for now, None where it must be."""
        verdict = self._refusals.verdict(self._name(text), self._clock())
        return None if verdict is None else _raised(verdict, text)

    async def _documents(self, texts: Sequence[str]) -> list[Vector]:
        began = self._clock()
        try:
            vectors = await self._embed([self._prefixes.document + text for text in texts])
        except BadAnswer:  # said soon enough, and perhaps of one text
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
            sentence = f"{server} gave {len(embeddings)} vectors for {len(texts)} texts"
            raise BadAnswer(sentence, perhaps_the_text=False)
        for embedding in embeddings:
            if len(embedding) != self.model.dimension:
                raise BadAnswer(
                    f"{server} gave a vector of {len(embedding)} numbers; "
                    f"{self.model.name} had {self.model.dimension} at start",
                    perhaps_the_text=False,
                )
        try:
            return [unit(embedding) for embedding in embeddings]
        except (ValueError, TypeError) as error:
            raise BadAnswer(f"{server} gave a damaged vector: {error}") from error


def _raised(verdict: Verdict, text: str) -> PipelineError:
    minutes = f"{KEPT_S / 60:g} minutes"
    match verdict:
        case Again(sentence, after_s):
            said = f"{sentence}, for one text of {len(text)} characters; it embeds others, and is asked again"
            return RetryLater(said, "model_refuses", after_s=after_s)
        case TextAtFault(sentence, times):
            said = f"{sentence}, {times} times for a text of {len(text)} characters alone, and embeds others as long"
            return Rejected(f"{said}; it is not asked for this text again for {minutes}", "model_refuses")
        case ServerAtFault(sentence, documents):
            return Unavailable(f"{sentence}; it refuses texts of {documents} documents within {minutes}")
