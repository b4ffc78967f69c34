"""The properties of the rag-chatbot seed that concern retrieval and answers, each on 100 generated cases in CI."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar

from tests.integration.api import a_client
from tests.selection import CI_ONLY, IN_CI

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES = 100 if IN_CI else 10
COUNTED = settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOPICS = ("harbour", "lantern", "heron", "willow", "ferry", "tower", "museum", "winter", "oil", "rope")
TEXTS = {
    f"{topic}.md": f"# The {topic}\n\nThe {topic} stands near the {other}. In May {other} keepers paint the {topic}."
    for topic, other in zip(TOPICS, TOPICS[1:] + TOPICS[:1], strict=True)
}
QUESTIONS = st.lists(st.sampled_from([*TOPICS, "where", "who", "May", "painted", "near"]), min_size=1, max_size=6).map(
    lambda words: " ".join(words) + "?"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def library(app: Litestar, tenants: Iterator[str]) -> AsyncIterator[httpx.AsyncClient]:
    """A tenant with ten documents."""
    async with a_client(app, next(tenants)) as client:
        for path, text in TEXTS.items():
            reply = await client.post("/rag/ingest", json={"source": "s", "path": path, "text": text})
            assert reply.status_code == 200, reply.text
        yield client


async def results(client: httpx.AsyncClient, query: str, **more: Any) -> list[dict[str, Any]]:
    reply = await client.post("/rag/search", json={"query": query, **more})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["results"]
    return found


@CI_ONLY
@pytest.mark.feature(211)
@COUNTED
@given(question=QUESTIONS)
async def test_retrieval_returns_chunks_of_the_knowledge_base(library: httpx.AsyncClient, question: str) -> None:
    """**Feature: rag-chatbot, Property 1: Document retrieval returns knowledge base chunks**"""
    for hit in await results(library, question):
        assert hit["text"] in TEXTS[hit["metadata"]["path"]]


@pytest.mark.feature(212, 161)
@COUNTED
@given(question=QUESTIONS, top_k=st.integers(1, 20))
async def test_chunks_are_ranked_by_similarity(library: httpx.AsyncClient, question: str, top_k: int) -> None:
    """**Feature: rag-chatbot, Property 2: Retrieved chunks are ranked by similarity**"""
    scores = [hit["score"] for hit in await results(library, question, topK=top_k)]

    assert len(scores) <= top_k
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.feature(74)
@pytest.mark.feature(220)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text("abcdefghijklmnop", min_size=12, max_size=16), min_size=10, max_size=10, unique=True))
@CI_ONLY
async def test_a_new_document_is_found_right_after_it_is_added(
    app: Litestar, tenants: Iterator[str], names: list[str]
) -> None:
    """**Feature: rag-chatbot, Property 10: New documents immediately searchable** (ten in each of ten cases)"""
    async with a_client(app, next(tenants)) as client:
        items = [{"source": "s", "path": name, "text": f"A note about {name}."} for name in names]
        added = await client.post("/rag/ingest/batch", json=items, headers={"Prefer": "wait=60"})
        assert added.status_code == 200, added.text
        for name in names:
            assert name in [hit["metadata"]["path"] for hit in await results(client, f"A note about {name}.", topK=10)]


@pytest.mark.feature(223, 164)
@COUNTED
@given(count=st.integers(-5, 1100))
async def test_the_retrieval_count_is_checked(library: httpx.AsyncClient, count: int) -> None:
    """**Feature: rag-chatbot, Property 13: Retrieval count configuration validation** (1 to 1000: ADR 0022)"""
    reply = await library.post("/rag/search", json={"query": "tower", "topK": count})

    assert reply.status_code == (200 if 1 <= count <= 1000 else 400)
    if reply.status_code == 400:
        assert "topK" in reply.json()["message"]


@CI_ONLY
@pytest.mark.feature(224, 225, 226, 187)
@COUNTED
@given(question=QUESTIONS)
async def test_every_source_of_an_answer_is_listed_in_one_form(library: httpx.AsyncClient, question: str) -> None:
    """**Feature: rag-chatbot, Property 14: Responses include source references**

    **Feature: rag-chatbot, Property 15: Source citations have required fields**
    **Feature: rag-chatbot, Property 16: Source format consistency**
    """
    told = (await library.post("/chat", json={"message": question, "useRag": True})).json()

    assert told["ragUsed"] == bool(told["sources"])
    assert len(told["sources"]) == len(told["ragSources"])
    cited = {citation["chunkId"] for citation in told["citations"]}
    assert cited <= {source["chunkId"] for source in told["sources"]}
    for source in told["sources"]:
        assert source.keys() == {"document", "chunk", "score", "documentId", "chunkId"}
        assert source["document"]
        assert source["chunk"]
        assert 0 <= source["score"] <= 1
    for citation in told["citations"]:
        assert citation["document"]
        assert citation["excerpt"]
        assert all(told["response"][start:end] == f"[{citation['number']}]" for start, end in citation["spans"])


@pytest.mark.feature(228, 199)
@COUNTED
@given(
    value=st.sampled_from([None, "", [], {}, True]) | st.text(" \t\n\r", max_size=5),
    route=st.sampled_from([("/chat", "message"), ("/rag/query", "question"), ("/rag/search", "query")]),
)
async def test_empty_input_is_refused_with_a_message(
    library: httpx.AsyncClient, value: Any, route: tuple[str, str]
) -> None:
    """**Feature: rag-chatbot, Property 18: Invalid input rejection**"""
    path, field = route

    reply = await library.post(path, json={field: value, "useRag": True, "documentIds": ["x"]})

    assert reply.status_code == 400
    assert field in reply.json()["message"]
