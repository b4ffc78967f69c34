"""Equal text of documents under way at one moment, on the real index, with a model that can be held and broken."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.points import chunk_points
from services.embed_worker.vectors import VectorMetrics, Vectors
from shared.contracts import Chunk
from shared.embedder import Vector
from shared.errors import Unavailable
from shared.state.index import Generation, Index, KnownVector
from shared.store import Sparse
from shared.store.edge import EdgeStore
from tests.builders import a_version, chunks_of
from tests.fakes.embedder import MemoryEmbedder, vector_of


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    store = EdgeStore(tmp_path / "store")
    await store.start()
    made = Index(store, Generation(chunker="c", chunk_size=800, chunk_overlap=0, model=MemoryEmbedder.model, bm25="b"))
    await made.create()
    yield made
    await store.close()


def vectors_on(index: Index, model: MemoryEmbedder) -> Vectors:
    return Vectors(index, model, VectorMetrics(CollectorRegistry()))


async def test_text_that_is_embedded_but_not_yet_written_is_not_embedded_again(index: Index) -> None:
    model = MemoryEmbedder()
    vectors = vectors_on(index, model)

    async with vectors.of("t", chunks_of("equal", "mine")) as first:
        async with vectors.of("t", chunks_of("other", "equal")) as second:
            assert np.array_equal(first[0], second[1])
        async with vectors.of("another tenant", chunks_of("equal")):
            pass

    assert sorted(model.asked) == ["equal", "equal", "mine", "other"]


async def test_text_that_is_being_embedded_is_waited_for(index: Index) -> None:
    model = MemoryEmbedder()
    model.answers.clear()
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> list[Vector]:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return found

    first = asyncio.create_task(embed("a", "b"))
    await model.was_asked.wait()
    second = asyncio.create_task(embed("b", "a"))
    model.answers.set()

    assert [v.tolist() for v in await first] == [v.tolist() for v in await second][::-1]
    assert model.asked == ["a", "b"]


async def test_whoever_waits_for_a_document_that_fails_embeds_the_text_itself(index: Index) -> None:
    model = MemoryEmbedder()
    model.answers.clear()
    model.failures = 1
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> list[Vector]:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return found

    failing = asyncio.create_task(embed("equal"))
    await model.was_asked.wait()
    waiting = asyncio.create_task(embed("equal", "mine"))
    model.answers.set()

    with pytest.raises(Unavailable):
        await failing
    assert [v.tolist() for v in await waiting] == [vector_of("equal").tolist(), vector_of("mine").tolist()]
    assert model.asked == ["equal", "mine", "equal"]


async def test_two_documents_that_wait_for_each_others_text_both_end(index: Index) -> None:
    model = MemoryEmbedder()
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> int:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return len(found)

    assert await asyncio.gather(*(embed(*texts) for texts in (("a", "b"), ("b", "c"), ("c", "a")))) == [2, 2, 2]
    assert sorted(model.asked) == ["a", "b", "c"]


async def test_a_vector_is_copied_where_prefix_and_text_are_equal(index: Index) -> None:
    model = MemoryEmbedder()
    document, vectors = a_version(), vectors_on(index, model)

    def under(prefix: str) -> list[Chunk]:
        return [msgspec.structs.replace(chunk, prefix=prefix) for chunk in chunks_of("a", "b")]

    for prefix in ("One", "", "One", "Other"):
        chunks = under(prefix)
        async with vectors.of(document.tenant, chunks) as dense:
            sparse = [Sparse([1], [1.0])] * 2
            await index.put(chunk_points(document, chunks, slice(0, 2), dense, sparse))
            document = msgspec.structs.replace(document, version=document.version + 1)

    assert model.asked == ["One\na", "One\nb", "a", "b", "Other\na", "Other\nb"]


async def test_a_generation_that_is_filled_asks_the_one_that_has_the_vectors_first(index: Index) -> None:
    asked: list[str] = []

    class Watched(Index):
        async def known(self, tenant: str, hashes: Sequence[str]) -> dict[str, KnownVector]:
            asked.append(self.generation.chunker)
            return (
                {}
                if self.generation.chunker == "new"
                else {hash_: KnownVector("a", vector_of("a")) for hash_ in hashes}
            )

    new, old = (
        Watched(index._store, msgspec.structs.replace(index.generation, chunker=name)) for name in ("new", "old")
    )
    model = MemoryEmbedder()

    for fills in (True, False):
        vectors = Vectors(
            new, model, VectorMetrics(CollectorRegistry()), siblings=lambda: [old], fills=partial(bool, fills)
        )
        async with vectors.of("t", chunks_of("a")):
            pass

    assert (asked, model.asked) == (["old", "new", "old"], [])
