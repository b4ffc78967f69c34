"""Fakes of `shared.embedder.Embedder` and of `EmbeddingServer`: exact, quick, without weights."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from shared.embedder import Model, TokenCounter, Vector, refuse_unreadable, unit
from shared.embedder.refusals import TRIES
from shared.embedder.served import Served
from shared.errors import Rejected, Unavailable
from shared.model_server.http import BadAnswer
from tests.fakes.tokens import Characters
from tests.servers.fake_models import vector

UNEMBEDDABLE = "(no model takes this)"  # the simulation's model refuses a text that contains it
REFUSED = "(the server says NaN to this)"  # the model's server refuses any call that contains it

_OWN = 4  # numbers of a vector that differ for every text
DIMENSION = len(vector("")) + _OWN
MAX_TOKENS = 512


def vector_of(text: str) -> Vector:
    """Return the text's vector: no other text's, and nearer to those of texts that share its words."""
    return unit(_embedding(text))


def _embedding(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return vector(text) + [number / 2**16 for number in np.frombuffer(digest[: 2 * _OWN], np.uint16).tolist()]


class MemoryEmbedder:
    """A model that notes what it is asked, waits while `answers` is unset, and fails as often as `failures` says."""

    model = Model(name="memory", digest="0" * 64, dimension=DIMENSION, max_tokens=MAX_TOKENS)
    tokens: TokenCounter = Characters(MAX_TOKENS)

    def __init__(self) -> None:
        self.asked: list[str] = []  # the texts, in order
        self.was_asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.failures = 0
        self.calls: list[str] = []  # of the methods that take no text

    async def start(self) -> None:
        self.calls.append("start")

    async def close(self) -> None:
        self.calls.append("close")

    async def ping(self) -> None:
        self.calls.append("ping")

    async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
        refuse_unreadable(texts)
        if max(self.tokens.count(texts), default=0) > MAX_TOKENS:
            raise Rejected(f"the model accepts at most {MAX_TOKENS} tokens", "text_too_long")
        return await self._embedded(texts)

    async def embed_query(self, text: str) -> Vector:
        refuse_unreadable([text])
        return (await self._embedded([text]))[0]

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        refuse_unreadable([question, *texts])
        first, *others = await self._embedded([question, *texts])
        return [float(first @ other) for other in others]

    async def _embedded(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        self.was_asked.set()
        await self.answers.wait()
        if self.failures:
            self.failures -= 1
            raise Unavailable("the model is away")
        return [vector_of(text) for text in texts]


class MemoryModel:
    """A model's server. It refuses some texts until it is `mended`."""

    server, name = "the simulated server", "simulated"

    def __init__(self) -> None:
        self.mended = False
        self._stumbles: Counter[str] = Counter()

    async def describe(self) -> Served:
        return Served(identity=("0",), dimension=DIMENSION, longest=MAX_TOKENS)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not self.mended and any(REFUSED in text for text in texts):
            raise BadAnswer(f"{self.server} answered 500: unsupported value: NaN", 500)
        return [_embedding(text) for text in texts]

    def may_stumble(self, texts: Sequence[str]) -> bool:
        """Return whether a passing fault may look like a refusal: of one text alone, not as often as it is tried."""
        if len(texts) > 1:
            return True
        self._stumbles[texts[0]] += 1
        return self._stumbles[texts[0]] < TRIES

    async def ping(self) -> None: ...

    async def close(self) -> None: ...
