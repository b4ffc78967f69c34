"""A score says how well a passage answers a query, and nothing else moves it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar

from tests.integration.api import HERONS, LANTERN, a_client, ingested
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "When is the lantern on the pier lit?"
FILTERS: list[dict[str, Any]] = [
    {},
    {"source": "s"},
    {"tags": ["harbour"]},
    {"pathPrefix": "lan", "year": {"gte": 1850, "lt": 1950}},
    {"not": {"path": "none"}, "createdAt": {"gte": "2020-01-01"}},
]


async def found(client: httpx.AsyncClient, query: str = QUESTION, **how: Any) -> list[dict[str, Any]]:
    reply = await client.post("/rag/search", json={"query": query, "explain": True, **how})
    assert reply.status_code == 200, reply.text
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


@CI_ONLY
@pytest.mark.feature(138, 161)
async def test_a_pair_has_one_score_under_every_filter_in_every_index_for_every_tenant(
    client: httpx.AsyncClient, app: Litestar, tenants: Iterator[str]
) -> None:
    scores = set()

    for others in (0, 20, 60):
        async with a_client(app, next(tenants)) as tenant:
            await ingested(tenant, path="lantern.md", tags=["harbour"], metadata={"year": 1900})
            for n in range(others):
                text = f"A lantern, number {n}, on the pier of harbour {n * n}."
                await ingested(tenant, text, path=f"lan{n}", tags=["harbour"], metadata={"year": 1900 + n % 9})
            for filters in FILTERS:
                hits = await found(tenant, filters=filters, topK=50)
                assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
                scores |= {hit["score"] for hit in hits if hit["text"] == LANTERN}

    assert len(scores) == 1
    assert 0.5 <= scores.pop() <= 1.0


@pytest.mark.feature(143, 144, 145)
async def test_what_bears_on_nothing_scores_next_to_nothing_and_is_refused(client: httpx.AsyncClient) -> None:
    await ingested(client, LANTERN, path="a")
    await ingested(client, HERONS, path="b")

    [right, *_] = await found(client)
    nonsense = await found(client, "blorptang fizzwickle mortgage")
    refused = await client.post("/chat", json={"message": "blorptang fizzwickle mortgage", "useRag": True})
    answered = await client.post("/chat", json={"message": QUESTION, "useRag": True})

    assert right["score"] >= 0.5
    assert nonsense
    assert max(hit["score"] for hit in nonsense) < 0.02
    assert refused.json()["ragUsed"] is False
    assert answered.json()["ragUsed"] is True
    for path, body in (
        ("/chat", {"message": QUESTION, "useRag": True}),
        ("/rag/query", {"question": QUESTION, "documentIds": [right["metadata"]["documentId"]]}),
    ):
        replies = [(await client.post(path, json={**body, "minScore": each})).json() for each in (0.5, 1.0)]
        assert [bool(reply["sources"]) for reply in replies] == [True, False], path
        assert not any(reply.get("warnings") for reply in replies)
    assert await found(client, minScore=0.5) == [right]
    assert len(await found(client, minScore=0.5, gate="best")) == 2
    assert await found(client, minScore=1.0, gate="best") == []


@CI_ONLY
async def test_a_hit_of_words_alone_has_its_cosine_and_the_score_it_has_anywhere(client: httpx.AsyncClient) -> None:
    for n in range(60):  # closer by meaning than what is sought
        await ingested(client, f"The vessel sails from the dock in the morning, ship {n}.", path=f"ship{n}")
    await ingested(
        client, "Zorgblatt quellmunt ifrith. " + "An entirely different matter of tax law and appeals. " * 8, path="z"
    )
    query = "the Zorgblatt quellmunt ifrith vessel sails from the dock"

    [alone] = await found(client, query, filters={"path": "z"})
    [among] = [hit for hit in await found(client, query, topK=100) if hit["metadata"]["path"] == "z"]

    assert "dense" not in among["explain"]["ranks"]
    assert among["explain"]["cosine"] == pytest.approx(alone["explain"]["cosine"], abs=1e-5)
    assert among["score"] == alone["score"]


@pytest.mark.parametrize("mode", ["dense", "sparse"])
async def test_one_leg_scores_as_it_can(client: httpx.AsyncClient, mode: str) -> None:
    await ingested(client)

    [hit] = await found(client, mode=mode)
    [hybrid] = await found(client)

    assert ("cosine" in hit["explain"]) is (mode == "dense")
    assert mode == "sparse" or hit["score"] == hybrid["score"]


@pytest.mark.parametrize("body", [{"minScore": 1.5}, {"minScore": -0.1}, {"gate": "some"}, {"minScore": "high"}])
async def test_a_gate_that_cannot_be_is_refused(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    for path, asked in (
        ("/rag/search", {"query": "x"}),
        ("/chat", {"message": "x"}),
        ("/rag/query", {"question": "x", "documentIds": ["d"]}),
    ):
        reply = await client.post(path, json={**asked, **body})

        assert reply.status_code == 400
        assert next(iter(body)) in reply.json()["error"]


async def test_documents_that_other_filters_exclude_and_unknown_ones_are_named(client: httpx.AsyncClient) -> None:
    known = await ingested(client, path="quays/one.md")
    apart = "filters: documentIds and the other filters have no document in common"
    for filters, warnings in (
        ({"documentIds": [known]}, []),
        ({"documentIds": [known], "pathPrefix": "quays/"}, []),
        ({"documentIds": [known], "path": "quays/two.md"}, [apart]),
        ({"documentIds": [known, "nobody"]}, ["filters: there is no document 'nobody'"]),
        ({"documentIds": [known, "nobody"], "tags": ["x"]}, [apart, "filters: there is no document 'nobody'"]),
        ({"path": "quays/two.md"}, []),
    ):
        for path, body in (
            ("/rag/search", {"query": "lantern", "filters": filters}),
            ("/rag/context", {"query": "lantern", "filters": filters}),
            ("/chat", {"message": "When is the lantern lit?", "useRag": True, "ragFilters": filters}),
            ("/chat", {"message": "Summarize this document", "useRag": True, "ragFilters": filters}),
        ):
            reply = await client.post(path, json=body)

            assert reply.json().get("warnings", []) == warnings, (path, filters)


async def test_a_field_that_no_document_has_is_named(client: httpx.AsyncClient) -> None:
    await ingested(client, metadata={"year": 1900})

    async def warnings(filters: dict[str, Any]) -> list[str]:
        reply = await client.post("/rag/search", json={"query": "lantern", "filters": filters})
        said: list[str] = reply.json().get("warnings", [])
        return said

    assert await warnings({"year": 1901, "source": "none", "tags": ["none"]}) == []
    assert await warnings({"sorce": "wiki"}) == ["filters: no document has the field 'sorce'; did you mean source?"]
    assert await warnings({"yaer": 1900}) == ["filters: no document has the field 'yaer'"]
    assert await warnings({"not": {"colour": "red"}}) == ["filters: no document has the field 'colour'"]
