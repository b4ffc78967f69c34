from collections.abc import Sequence

import numpy as np

from shared.embedder import Model, TokenCounter, Vector
from shared.embedder.cache import QueryCache
from shared.embedder.estimate import EstimatedTokens
from shared.embedder.vectors import unit


class Counting:
    """An embedder that remembers what it was asked."""

    model = Model(name="counting", digest="0" * 64, dimension=2, max_tokens=10)
    tokens: TokenCounter = EstimatedTokens(10)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def start(self) -> None:
        self.asked.append("start")

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return [unit([1, len(text)]) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        return unit([1, len(text)])

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked += [question, *texts]
        return [1.0 for _ in texts]

    async def ping(self) -> None:
        self.asked.append("ping")

    async def close(self) -> None:
        self.asked.append("close")


async def test_a_query_is_embedded_once_while_it_is_among_the_latest() -> None:
    inner = Counting()
    cache = QueryCache(inner, size=2)

    first = await cache.embed_query("a")
    again = await cache.embed_query("a")
    await cache.embed_query("b")
    await cache.embed_query("a")  # now the latest
    await cache.embed_query("c")  # pushes b out
    await cache.embed_query("a")
    await cache.embed_query("b")

    assert np.array_equal(first, again)
    assert inner.asked == ["a", "b", "c", "b"]


async def test_documents_are_not_cached_and_the_rest_passes() -> None:
    inner = Counting()
    cache = QueryCache(inner)

    await cache.start()
    await cache.embed_documents(["a", "a"])
    await cache.ping()
    await cache.close()

    assert inner.asked == ["start", "a", "a", "ping", "close"]
    assert cache.model is inner.model
    assert cache.tokens is inner.tokens
