import numpy as np

from shared.embedder.cache import QueryCache
from tests.fakes.embedder import MemoryEmbedder


async def test_a_query_is_embedded_once_while_it_is_among_the_latest() -> None:
    inner = MemoryEmbedder()
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
    inner = MemoryEmbedder()
    cache = QueryCache(inner)

    await cache.start()
    await cache.embed_documents(["a", "a"])
    await cache.ping()
    await cache.close()

    assert inner.asked == ["a", "a"]
    assert inner.calls == ["start", "ping", "close"]
    assert cache.model is inner.model
    assert cache.tokens is inner.tokens
