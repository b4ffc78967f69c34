"""Searches whose best hits a cross-encoder orders."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from pydantic import SecretStr

from services.query_api.app import ApiParts
from services.query_api.http.circuit_breaker import MOST_FAILURES
from shared.reranker.served import ServedReranker, rerank_address
from tests.fakes.reranker import MemoryReranker
from tests.integration.api import HERONS, LANTERN, a_client, an_app, ingested, problem
from tests.selection import CI_ONLY
from tests.servers.fake_rerank import Shape, fake_rerank

NO_KEY = SecretStr("")
pytestmark = [pytest.mark.asyncio(loop_scope="session"), CI_ONLY]

# The model finds the first one nearer; the second one has more of the query's words.
NEAR = "The lamp on the quay begins to shine in the evening."
WORDS = "When is the wall at the pier lit, the lantern keeper does not know."
QUERY = "when is the lantern at the pier lit"


@pytest.fixture
def model() -> MemoryReranker:
    return MemoryReranker()


@pytest_asyncio.fixture(loop_scope="session")
async def reranked(parts: ApiParts, tenants: Iterator[str], model: MemoryReranker) -> AsyncIterator[httpx.AsyncClient]:
    async with a_client(an_app(parts, reranker=model), next(tenants)) as client:
        yield client


async def searched(client: httpx.AsyncClient, **how: Any) -> dict[str, Any]:
    reply = await client.post("/rag/search", json={"query": QUERY, "mode": "dense", "explain": True} | how)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def paths(found: dict[str, Any]) -> list[str]:
    return [hit["metadata"]["path"] for hit in found["results"]]


async def loaded(client: httpx.AsyncClient) -> None:
    for path, text in (("lantern", LANTERN), ("words", WORDS), ("herons", HERONS), ("near", NEAR)):
        await ingested(client, text, path=path)


async def test_the_model_orders_the_hits_and_no_score_changes(
    reranked: httpx.AsyncClient, model: MemoryReranker
) -> None:
    await loaded(reranked)

    plain = await searched(reranked, rerank="off")
    ordered = await searched(reranked)
    named = await searched(reranked, rerank="model")
    pages = [await searched(reranked, topK=2, offset=offset) for offset in (0, 2)]

    assert paths(ordered)[0] == "words"
    assert paths(ordered) == paths(named) == [path for page in pages for path in paths(page)]
    assert sorted(paths(ordered)) == sorted(paths(plain))
    scores = {hit["metadata"]["path"]: hit["score"] for hit in plain["results"]}
    assert {hit["metadata"]["path"]: hit["score"] for hit in ordered["results"]} == scores
    figures = [hit["explain"]["reranked"] for hit in ordered["results"]]
    assert figures == sorted(figures, reverse=True)
    assert ordered["timings"]["rerankMs"] >= 0
    assert all("reranked" not in hit["explain"] for hit in plain["results"])
    assert set(model.asked) == {4}


async def test_answers_and_vector_stores_keep_the_models_order(reranked: httpx.AsyncClient) -> None:
    await ingested(reranked, "The lantern is lit.", path="lit")
    await ingested(reranked, "What is it that was at one of the piers?", path="stop words")
    asked = {"query": "what is it that was at the lantern"}

    plain, ordered = [paths(await searched(reranked, mode="hybrid", rerank=by, **asked)) for by in ("off", "model")]
    context = (await reranked.post("/rag/context", json=asked | {"minScore": 0})).json()
    stored = (await reranked.post("/v1/vector_stores/documents/search", json=asked)).json()

    assert (plain, ordered) == (["lit", "stop words"], ["stop words", "lit"])
    assert [each["metadata"]["path"] for each in context["documents"]] == ordered
    assert [each["attributes"]["path"] for each in stored["data"]] == ordered


async def test_while_the_model_fails_the_order_is_plain_and_that_is_said(
    reranked: httpx.AsyncClient, model: MemoryReranker
) -> None:
    await loaded(reranked)
    model.failures = MOST_FAILURES

    plain = await searched(reranked, rerank="off")
    failed = [await searched(reranked) for _ in range(MOST_FAILURES)]
    refused = await searched(reranked)

    for found in (*failed, refused):
        assert paths(found) == paths(plain)
        [warning] = found["warnings"]
        assert warning.startswith("rerank: ")
        assert warning.endswith("the results are in their plain order")
    assert "the reranker is away" in failed[0]["warnings"][0]
    assert "5 times in a row" in refused["warnings"][0]
    assert len(model.asked) == MOST_FAILURES  # the breaker asked no more


@pytest.mark.parametrize("shape", ["cohere", "tei"])
async def test_a_server_of_either_shape_orders_searches_and_answers(
    parts: ApiParts, tenants: Iterator[str], shape: Shape
) -> None:
    async with fake_rerank(shape) as server:
        model = ServedReranker(rerank_address("SLUICE_RERANK", f"{server.url}/rerank"), NO_KEY, 60)
        async with a_client(an_app(parts, reranker=model), next(tenants)) as client:
            await loaded(client)
            assert paths(await searched(client))[0] == "words"
            context = (await client.post("/rag/context", json={"query": QUERY, "minScore": 0})).json()
            assert context["documents"][0]["metadata"]["path"] == "words"
        await model.close()


async def test_without_a_model_it_cannot_be_asked_for(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/search", json={"query": "x", "rerank": "model"})

    assert "SLUICE_RERANK" in problem(reply, 400)
    assert (await client.post("/rag/search", json={"query": "x", "rerank": "off"})).status_code == 200
