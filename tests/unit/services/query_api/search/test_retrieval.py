"""Searches that ask the model again, and searches whose model or store never answers."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from services.query_api.http.circuit_breaker import MOST_FAILURES
from services.query_api.http.monitoring import Metrics
from services.query_api.search import retrieval
from services.query_api.search.retrieval import Mode, Retriever
from shared.errors import Unavailable
from shared.state.index import Index
from shared.store import Filter, Leg
from shared.store.bm25 import Bm25
from tests.fakes.embedder import MemoryEmbedder
from tests.fakes.state import GENERATION, ledger_and_index
from tests.fakes.store import MemoryStore


class SilentStore(MemoryStore):
    """A store whose searches never end."""

    async def search(self, *what: Any, **how: Any) -> Any:
        await asyncio.Event().wait()


@pytest.mark.feature(118)
async def test_a_query_is_embedded_once_for_each_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "MOST_VECTORS", 2)
    model, (_, index) = MemoryEmbedder(), await ledger_and_index(MemoryStore())
    retriever = Retriever(index, model, Bm25(), Metrics(CollectorRegistry()))

    for tenant, query in (("a", "x"), ("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "x"), ("b", "x")):
        await retriever.search(tenant, query)

    assert model.asked == ["x", "x", "y", "x"]  # for a, for b, for a, and for b again, which was asked longest ago


@pytest.mark.parametrize(("mode", "part"), [("dense", "the embedding model"), ("sparse", "the store")])
async def test_a_search_ends_with_the_name_of_what_is_silent(mode: Mode, part: str) -> None:
    model, index = MemoryEmbedder(), Index(SilentStore(), GENERATION)
    model.answers.clear()
    retriever = Retriever(index, model, Bm25(), Metrics(CollectorRegistry()), patience_s=0.01)

    with pytest.raises(Unavailable, match=f"{part} gave no answer within 0.01 s"):
        await retriever.search("tenant", "lantern", mode=mode)


@pytest.mark.feature(208)
async def test_a_store_that_keeps_silent_is_not_asked_again_at_once() -> None:
    retriever = Retriever(
        Index(SilentStore(), GENERATION), MemoryEmbedder(), Bm25(), Metrics(CollectorRegistry()), patience_s=0.01
    )
    for _ in range(MOST_FAILURES):
        with pytest.raises(Unavailable, match="the store gave no answer"):
            await retriever.search("tenant", "lantern", mode="sparse")

    with pytest.raises(Unavailable, match="the store failed 5 times in a row"):
        await retriever.search("tenant", "lantern", mode="sparse")


@pytest.mark.parametrize(
    ("query", "foreign"), [("Wie finde ich den Schlüssel?", True), ("How do I find the ash key?", False)]
)
async def test_short_words_weigh_less_in_questions_of_other_languages_alone(query: str, foreign: bool) -> None:
    asked = list[Leg]()

    class Listening(MemoryStore):
        async def search(self, *what: Any, **how: Any) -> Any:
            asked.extend(what[1])
            return await super().search(*what, **how)

    _, index = await ledger_and_index(Listening())
    await Retriever(index, MemoryEmbedder(), Bm25(), Metrics(CollectorRegistry())).search("t", query, mode="sparse")

    assert [leg.sparse for leg in asked] == [Bm25().query(query, foreign=foreign)]
    assert (Bm25().query(query, foreign=True) == Bm25().query(query)) is False


async def test_facets_are_counted_for_one_tenant_after_the_other_and_waiting_is_no_failure() -> None:
    asked = list[str]()

    class Slow(MemoryStore):
        async def scroll(self, *what: Any, **how: Any) -> Any:
            asked.extend(each.any_of[0] for each in what[1].must if each.field == "metadata.tenant")
            await asyncio.sleep(0.02)
            return await super().scroll(*what, **how)

    _, index = await ledger_and_index(Slow())
    retriever = Retriever(index, MemoryEmbedder(), Bm25(), Metrics(CollectorRegistry()), patience_s=0.2)
    fields = {"path": "path"}
    async with asyncio.TaskGroup() as tasks:
        for tenant in ["crowd"] * 20 + ["other"]:
            tasks.create_task(retriever.facets(tenant, fields, Filter()))

    assert len(asked) == 21
    assert asked.index("other") < 5
