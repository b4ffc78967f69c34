"""Searches that a language model expands, because the request asks for it."""

from collections.abc import AsyncGenerator, Iterator

import pytest

from services.query_api.app import ApiParts
from shared.answers import Conversation, Event, Finished, Prompted
from shared.answers.model_pool import ChatModel, ChatModels
from shared.answers.prompt import CONTEXT
from shared.errors import Unavailable
from tests.integration.api import HERONS, LANTERN, a_client, an_app, ingested, problem
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Author:
    """A model that writes these questions, or fails."""

    name, needs_passages = "author", False

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.asked: list[Conversation] = []

    async def context(self) -> int:
        return CONTEXT

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        self.asked.append(conversation)
        if self.text is None:
            raise Unavailable("the author is away")
        yield Prompted(())
        yield self.text
        yield Finished()


@pytest.mark.feature(155)
@CI_ONLY
async def test_related_questions_of_the_model_are_searched_when_asked_for(
    parts: ApiParts, tenants: Iterator[str]
) -> None:
    author = Author("1. Where do herons nest?\n2. Who lights the lantern?")
    body = {"query": "birds by the boathouse", "mode": "sparse", "explain": True}
    models = ChatModels([ChatModel(name="author", server="openai", answers=author)])
    async with a_client(an_app(parts, models=models), next(tenants)) as client:
        await ingested(client, LANTERN, path="lantern")
        await ingested(client, HERONS, path="herons")

        plain = (await client.post("/rag/search", json=body)).json()
        assert author.asked == []
        found = (await client.post("/rag/search", json={**body, "expansion": "model"})).json()
        author.text = None
        failed = (await client.post("/rag/search", json={**body, "expansion": "model"})).json()

    assert [hit["metadata"]["path"] for hit in plain["results"]] == ["herons"]
    assert {hit["metadata"]["path"] for hit in found["results"]} == {"lantern", "herons"}
    assert found["related"] == ["Where do herons nest?", "Who lights the lantern?"]
    assert {hit["explain"].get("query") for hit in found["results"]} <= {None, *found["related"]}
    assert author.asked[0].turns[-1].content == "birds by the boathouse"
    assert [hit["score"] for hit in failed["results"]] == [hit["score"] for hit in plain["results"]]
    assert failed["warnings"] == ["expansion: the author is away; only the query itself was searched"]


@CI_ONLY
async def test_without_a_language_model_a_search_is_not_expanded(parts: ApiParts, tenants: Iterator[str]) -> None:
    async with a_client(an_app(parts), next(tenants)) as client:
        reply = await client.post("/rag/search", json={"query": "x", "expansion": "model"})

    assert "SLUICE_CHAT" in problem(reply, 400)


@CI_ONLY
async def test_every_call_of_the_model_counts_for_the_key(parts: ApiParts, tenants: Iterator[str]) -> None:
    author = Author("Who lights the lantern?")
    models = ChatModels([ChatModel(name="extractive", server="openai", answers=author)])
    settings = parts.settings.model_copy(update={"chat_rate": 1})
    question = "When is the lantern lit?"
    messages = [{"role": "user", "content": question}]
    expanded: dict[str, object] = {"query": question, "expansion": "model"}
    async with a_client(an_app(parts, models=models, settings=settings), next(tenants)) as client:
        id_ = await ingested(client)
        calling: dict[str, dict[str, object]] = {
            "/rag/search": expanded,
            "/rag/search/batch": {"queries": [{"query": question}, expanded]},
            "/chat": {"message": question},
            "/rag/query": {"question": question, "documentIds": [id_]},
            "/v1/chat/completions": {"model": "extractive", "messages": messages},
            "/v1/responses": {"model": "rag/extractive", "input": question},
            "/api/chat": {"model": "rag/extractive", "messages": messages},
            "/api/generate": {"model": "rag/extractive", "prompt": question},
        }
        first = await client.post("/rag/search", json=expanded)
        assert (first.status_code, len(author.asked)) == (200, 1)
        for path, body in calling.items():
            for stream in (False, True) if "search" not in path else (None,):
                reply = await client.post(path, json=body | ({} if stream is None else {"stream": stream}))
                assert (path, reply.status_code) == (path, 429)
        plain = await client.post("/rag/search", json={"query": question})

    assert (plain.status_code, len(author.asked)) == (200, 1)
