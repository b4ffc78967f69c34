"""Searches whose sparse leg is ranked and compared while the model embeds the query."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from services.query_api.http.metrics import Metrics
from services.query_api.search.results import Results
from services.query_api.search.retrieval import Retriever
from shared.errors import Unavailable
from shared.ids import point_id
from shared.state.index import Head, Index
from shared.store import EVERYTHING, BegunSearch, Leg, Point
from shared.store.bm25 import Bm25
from shared.store.edge import BegunEdgeSearch, EdgeStore
from tests.fakes.embedder import MemoryEmbedder
from tests.fakes.state import GENERATION

T = TypeVar("T")

HANG_S = 20.0  # nothing here takes this long
DOCUMENT = "00000000-0000-5000-8000-000000000001"
BM25 = Bm25()


class SeenStore(EdgeStore):
    """A store that notes which searches were begun, and when one has been read."""

    begun: list[BegunSearch | None]
    read: asyncio.Event

    def begin_search(self, *what: Any, **how: Any) -> BegunEdgeSearch | None:
        search = super().begin_search(*what, **how)
        self.begun.append(search)
        if search is not None:
            search._answer.add_done_callback(lambda _: asyncio.get_running_loop().call_soon(self.read.set))
        return search


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SeenStore]:
    store = SeenStore(tmp_path / "store")
    store.begun, store.read = [], asyncio.Event()
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@pytest_asyncio.fixture
async def index(store: SeenStore) -> Index:
    index = Index(store, GENERATION)
    await index.create()
    return index


async def write(index: Index, model: MemoryEmbedder, version: int, *texts: str) -> None:
    """Write a version of the document with a chunk for each text, and switch to it."""
    vectors = await model.embed_documents(texts)
    points = [
        Point(
            id=point_id(DOCUMENT, version, order),
            payload={
                "text": text,
                "metadata": {
                    "tenant": "a",
                    "documentId": DOCUMENT,
                    "version": version,
                    "chunkOrder": order,
                    "title": "Lights",
                },
            },
            dense=vector,
            sparse=BM25.document(text),
        )
        for order, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    await index.put(points)
    await index.switch(Head(document_id=DOCUMENT, version=version, tenant="a", chunk_count=len(points)))


def a_retriever(index: Index, model: MemoryEmbedder) -> Retriever:
    return Retriever(index, model, BM25, Metrics(CollectorRegistry()))


def shown(results: Results) -> list[tuple[Any, ...]]:
    return [(hit.text, hit.score, hit.metadata, hit.explanation) for hit in results.hits]


async def while_the_model_is_at_work(
    store: SeenStore, model: MemoryEmbedder, search: Awaitable[T], change: Awaitable[None] | None = None
) -> T:
    """Return the result of the search, whose model answers when a begun search was read and the change was made."""
    model.answers.clear()
    async with asyncio.timeout(HANG_S):
        searching = asyncio.ensure_future(search)
        await store.read.wait()
        if change is not None:
            await change
        model.answers.set()
        return await searching


async def test_a_leg_that_was_begun_early_finds_and_scores_the_same(store: SeenStore, index: Index) -> None:
    model = MemoryEmbedder()
    await write(index, model, 1, *(f"The lantern of ship {n} shines." for n in range(8)), "A heron.", "Two herons.")
    retriever = a_retriever(index, model)

    early = await while_the_model_is_at_work(store, model, retriever.search("a", "lanterns of a ship", top_k=10))
    plain = await retriever.search("a", "lanterns of a ship", top_k=10)  # its vector is known: nothing to wait for

    assert len(early.hits) == 10
    assert shown(early) == shown(plain)
    assert len(store.begun) == 1
    assert store.begun[0] is not None


async def test_a_version_that_answers_meanwhile_is_found_and_the_one_before_is_not(
    store: SeenStore, index: Index
) -> None:
    model = MemoryEmbedder()
    await write(index, model, 1, "The lantern shines.", "A lantern in the fog.")
    retriever = a_retriever(index, model)

    results = await while_the_model_is_at_work(
        store, model, retriever.search("a", "lantern"), write(index, MemoryEmbedder(), 2, "The lantern is out.")
    )

    assert [hit.text for hit in results.hits] == ["The lantern is out."]


async def test_a_search_whose_model_fails_leaves_the_store_free(store: SeenStore, index: Index) -> None:
    model = MemoryEmbedder()
    await write(index, model, 1, "The lantern shines.")
    retriever = a_retriever(index, model)
    model.failures = 1

    with pytest.raises(Unavailable):
        await retriever.search("a", "lantern")
    found = await retriever.search("a", "lantern")

    assert [hit.text for hit in found.hits] == ["The lantern shines."]


async def test_only_a_search_on_its_own_begins_early(store: SeenStore, index: Index) -> None:
    model = MemoryEmbedder()
    await write(index, model, 1, "The lantern shines.", "A heron.")
    retriever = a_retriever(index, model)

    searching = asyncio.gather(*(retriever.search("a", f"lantern {n}") for n in range(4)))
    found = await while_the_model_is_at_work(store, model, searching)

    assert [len(each.hits) for each in found] == [2, 2, 2, 2]
    assert len([each for each in store.begun if each is not None]) == 1


async def test_a_begun_search_is_finished_also_if_its_first_answer_was_not_read(index: Index) -> None:
    model = MemoryEmbedder()
    await write(index, model, 1, "The lantern shines.", "A heron.")
    words, vector = BM25.query("lantern"), await model.embed_query("lantern")

    begun = index.begin_search("a", words, EVERYTHING, limit=5)
    assert begun is not None
    finished = await index.finish(begun, vector)

    assert finished == await index.search("a", [Leg(dense=vector), Leg(sparse=words)], EVERYTHING, limit=5)
