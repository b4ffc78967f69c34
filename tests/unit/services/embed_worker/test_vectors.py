"""Equal text of documents under way at one moment, on the real index, with a model that can be held and broken."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.vectors import Vectors
from shared.embedder import Model, Vector
from shared.errors import Unavailable
from shared.state.index import Generation, Index
from shared.store.edge import EdgeStore
from tests.builders import chunks_of

MODEL = Model(name="m", digest="d", dimension=2, max_tokens=100)


class HeldModel:
    """An embedder that answers when it is let go, and fails as often as it is told."""

    model = MODEL

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failures = 0
        self.asked_once = asyncio.Event()
        self.let_go = asyncio.Event()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        self.asked_once.set()
        await self.let_go.wait()
        if self.failures:
            self.failures -= 1
            raise Unavailable("the model is away")
        return [np.array([1, len(text)], np.float32) for text in texts]


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    store = EdgeStore(tmp_path / "store")
    await store.start()
    made = Index(store, Generation(chunker="c", chunk_size=800, chunk_overlap=0, model=MODEL, bm25="b"))
    await made.create()
    yield made
    await store.close()


def vectors_on(index: Index, model: HeldModel) -> Vectors:
    return Vectors(index, model, CollectorRegistry())  # type: ignore[arg-type]  # what `Vectors` uses of an embedder


async def test_text_that_is_embedded_but_not_yet_written_is_not_embedded_again(index: Index) -> None:
    model = HeldModel()
    model.let_go.set()
    vectors = vectors_on(index, model)

    async with vectors.of("t", chunks_of("equal", "mine")) as first:
        async with vectors.of("t", chunks_of("other", "equal")) as second:
            assert np.array_equal(first[0], second[1])
        async with vectors.of("another tenant", chunks_of("equal")):
            pass

    assert sorted(model.asked) == ["equal", "equal", "mine", "other"]


async def test_text_that_is_being_embedded_is_waited_for(index: Index) -> None:
    model = HeldModel()
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> list[Vector]:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return found

    first = asyncio.create_task(embed("a", "b"))
    await model.asked_once.wait()
    second = asyncio.create_task(embed("b", "a"))
    model.let_go.set()

    assert [v.tolist() for v in await first] == [v.tolist() for v in await second]
    assert model.asked == ["a", "b"]


async def test_whoever_waits_for_a_document_that_fails_embeds_the_text_itself(index: Index) -> None:
    model = HeldModel()
    model.failures = 1
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> list[Vector]:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return found

    failing = asyncio.create_task(embed("equal"))
    await model.asked_once.wait()
    waiting = asyncio.create_task(embed("equal", "mine"))
    model.let_go.set()

    with pytest.raises(Unavailable):
        await failing
    assert [v.tolist() for v in await waiting] == [[1, 5], [1, 4]]
    assert model.asked == ["equal", "mine", "equal"]


async def test_two_documents_that_wait_for_each_others_text_both_end(index: Index) -> None:
    model = HeldModel()
    model.let_go.set()
    vectors = vectors_on(index, model)

    async def embed(*texts: str) -> int:
        async with vectors.of("t", chunks_of(*texts)) as found:
            return len(found)

    assert await asyncio.gather(*(embed(*texts) for texts in (("a", "b"), ("b", "c"), ("c", "a")))) == [2, 2, 2]
    assert sorted(model.asked) == ["a", "b", "c"]
