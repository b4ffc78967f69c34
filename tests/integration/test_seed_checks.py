"""What the tests of comparable systems check: features 257 to 260, and 244."""

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.integration.api import HERONS, a_client, ingested

if TYPE_CHECKING:
    from litestar import Litestar

pytestmark = pytest.mark.asyncio(loop_scope="session")

BOATS = "\n\n".join(
    f"# Boat {number}\n\nBoat {number} leaves pier {number} at {number} in the morning and carries grain."
    for number in range(1, 9)
)


@pytest.mark.feature(257)
async def test_a_document_has_chunks_of_fewer_than_500_tokens(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, BOATS * 20)

    chunks = (await client.get(f"/rag/documents/{id_}/chunks", params={"limit": 1000})).json()["items"]

    assert (await client.get(f"/rag/documents/{id_}")).json()["chunkCount"] == len(chunks) > 1
    assert all(0 < chunk["metadata"]["tokenCount"] < 500 for chunk in chunks)


@pytest.mark.feature(258)
async def test_retrieval_gives_five_results_with_positive_scores(client: httpx.AsyncClient) -> None:
    for number in range(8):
        await ingested(client, f"Boat {number} leaves the pier and carries grain.", path=f"{number}.md")

    results = (await client.post("/rag/search", json={"query": "Which boat carries grain?"})).json()["results"]

    assert len(results) == 5
    assert all(result["score"] > 0 for result in results)


@pytest.mark.feature(259)
async def test_a_query_with_a_bearer_token_gives_an_answer_and_its_sources(client: httpx.AsyncClient) -> None:
    assert client.headers["authorization"].startswith("Bearer ")
    id_ = await ingested(client, HERONS)

    reply = await client.post("/rag/query", json={"question": "Where do herons nest?", "documentIds": [id_]})

    assert reply.status_code == 200
    told = reply.json()
    assert "willow" in told["answer"]
    assert len(told["sources"]) == 1
    assert [citation["docId"] for citation in told["citations"]] == [id_]


@pytest.mark.feature(260)
async def test_queries_at_the_same_time_each_get_their_own_answer(client: httpx.AsyncClient) -> None:
    for number, bird in enumerate(("heron", "otter", "crane", "seal")):
        await ingested(client, f"The {bird} sleeps in shed {number}.", path=f"{bird}.md")

    async def ask(bird: str) -> str:
        body = {"message": f"Where does the {bird} sleep?", "useRag": True}
        answer: str = (await client.post("/chat", json=body)).json()["response"]
        return answer

    birds = ("heron", "otter", "crane", "seal") * 5
    answers = await asyncio.gather(*map(ask, birds))

    assert [bird in answer for bird, answer in zip(birds, answers, strict=True)] == [True] * len(birds)


@pytest.mark.feature(244)
async def test_sizes_and_the_model_s_work_are_counted(app: "Litestar", client: httpx.AsyncClient) -> None:
    text = "The tide turns at noon, and the ferry waits for it."
    await ingested(client, text, path="a.md", source="tide")
    await ingested(client, BOATS, path="b.md", source="boats")
    gone = await ingested(client, "Gone soon.", path="c.md", source="boats")
    await client.delete(f"/rag/documents/{gone}")
    tenant = client.headers["authorization"].removeprefix("Bearer key-of-")

    own = (await client.get("/rag/stats", params={"sizes": "true"})).json()
    async with a_client(app) as operator:
        told = (await operator.get("/rag/stats?sizes=true", headers={"X-API-Key": "key-operator"})).json()

    [size] = own["tenants"]
    boats, tide = size["sources"]
    assert (size["tenant"], size["documents"], size["chunks"]) == (tenant, 2, own["chunks"])
    assert (boats["source"], boats["documents"], boats["bytes"]) == ("boats", 1, len(BOATS))
    assert tide == {"source": "tide", "documents": 1, "chunks": 1, "bytes": len(text)}
    assert "pipeline" not in own
    assert size in told["tenants"]
    assert len(told["tenants"]) > 1
    usage = told["pipeline"]["usage"]
    assert usage["embedded"] >= usage["calls"] > 0
    assert usage["tokens"] > usage["embedded"]
    assert "cost" not in usage  # no price is set
