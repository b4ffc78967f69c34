"""Ollama's API by Ollama's own client, and whose contract /api/chat is."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import ollama
import pytest
import pytest_asyncio

from services.query_api.app import ApiParts
from services.query_api.http.circuit_breaker import MOST_FAILURES
from tests.integration.api import problem
from tests.integration.clients.site import Site
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "When is the lantern lit?"
WHEN: Any = [{"role": "user", "content": QUESTION}]
QUOTES = "rag/extractive"
RAG = f"rag/{CHAT_MODEL}"


def a_client(site: Site) -> ollama.AsyncClient:
    return ollama.AsyncClient(site.url, timeout=60, headers={"Authorization": f"Bearer {site.key}"}, verify=False)


@pytest_asyncio.fixture(loop_scope="session")
async def quoter(quoting: Site) -> AsyncIterator[ollama.AsyncClient]:
    async with a_client(quoting) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def chatter(chatting: Site) -> AsyncIterator[ollama.AsyncClient]:
    async with a_client(chatting) as client:
        yield client


async def test_the_models_are_listed_and_shown(
    chatter: ollama.AsyncClient, quoter: ollama.AsyncClient, parts: ApiParts, chatting: Site
) -> None:
    listed = (await chatter.list()).models
    names = [each.model for each in listed]
    shown = [(await chatter.show(name or "")).capabilities for name in names]
    loaded = [each.model for each in (await chatter.ps()).models]

    embedding = f"{parts.embedder.model.name}:latest"
    assert names == loaded == [f"{RAG}:latest", f"{RAG}:inline", f"{CHAT_MODEL}:latest", embedding]
    assert shown == [["completion", "tools"]] * 3 + [["embedding"]]
    assert (await quoter.show(QUOTES)).capabilities == ["completion"]
    assert len({each.digest for each in listed}) == 4
    version = (await chatting.http.get("/api/version")).json()["version"]
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)  # what Copilot asks for


async def test_an_unknown_model_is_a_404_in_ollama_s_shape(chatter: ollama.AsyncClient) -> None:
    for asked in (chatter.show("gemma"), chatter.chat("gemma", WHEN), chatter.generate("gemma", "x")):
        with pytest.raises(ollama.ResponseError, match=f"^model 'gemma' not found; this server has {RAG}") as refused:
            await asked
        assert refused.value.status_code == 404


@pytest.mark.feature(173)
async def test_a_chat_answers_from_documents_with_figures_in_nanoseconds(
    chatter: ollama.AsyncClient, model: FakeOllama, chatting: Site
) -> None:
    told = await chatter.chat(RAG, WHEN)

    assert (told.message.role, told.message.content) == ("assistant", model.reply)
    assert (told.model, told.done, told.done_reason) == (RAG, True, "stop")
    assert (told.total_duration or 0) > 10_000  # nanoseconds: no answer takes less
    assert (told.prompt_eval_count or 0) > 0
    assert (told.eval_count or 0) > 0
    assert "[CONTEXT START]" in model.bodies("/api/chat")[0]["messages"][-1]["content"]


@pytest.mark.feature(182)
async def test_a_chat_streams_unless_told_otherwise(
    chatter: ollama.AsyncClient, chatting: Site, model: FakeOllama
) -> None:
    parts = [part async for part in await chatter.chat(RAG, WHEN, stream=True)]
    bare = await chatting.http.post("/api/chat", json={"model": CHAT_MODEL, "messages": WHEN})

    *pieces, last = parts
    assert "".join(part.message.content or "" for part in pieces) == model.reply
    assert len(pieces) > 5
    assert {part.done for part in pieces} == {False}
    assert (last.done, last.message.content) == (True, "")
    assert bare.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in bare.text.splitlines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"} <= lines[-1].keys()


async def test_a_client_filters_by_the_model_s_name(quoter: ollama.AsyncClient, quoting: Site) -> None:
    for name in (f"{QUOTES}@s", f"{QUOTES}@s:latest", f"{QUOTES}@s:inline"):
        told = await quoter.chat(name, WHEN)
        assert (told.message.content or "").startswith("The lantern on the pier is lit at six in the evening. [1]")
    bare = {"model": f"{QUOTES}@elsewhere", "messages": WHEN, "stream": False}
    elsewhere = await quoting.http.post("/api/chat", json=bare)
    shown = await quoter.show(f"{QUOTES}@s")

    assert elsewhere.json()["ragSources"] == []
    assert shown.capabilities == ["completion"]
    with pytest.raises(ollama.ResponseError, match="not found"):
        await quoter.chat("gemma@s", WHEN)
    with pytest.raises(ollama.ResponseError, match="not found"):
        await quoter.chat(f"{QUOTES}@", WHEN)


async def test_a_server_that_only_quotes_quotes_by_each_way_to_ask(quoter: ollama.AsyncClient, quoting: Site) -> None:
    chatted = await quoter.chat(QUOTES, WHEN)
    inline = await quoter.chat(f"{QUOTES}:inline", WHEN)
    generated = await quoter.generate(QUOTES, QUESTION)
    streamed = [part.response or "" async for part in await quoter.generate(QUOTES, QUESTION, stream=True)]
    bare = await quoting.http.post("/api/chat", json={"model": QUOTES, "messages": WHEN, "stream": False})

    text = "The lantern on the pier is lit at six in the evening. [1]"
    assert (chatted.message.content or "").startswith(text)
    assert generated.response == "".join(streamed) == chatted.message.content
    assert "**Sources**\n\n1. [Lantern](http" in (inline.message.content or "")
    assert bare.json()["ragSources"][0]["documentId"] == quoting.lantern
    with pytest.raises(ollama.ResponseError, match="plain chat needs a language model"):
        await quoter.chat("extractive", WHEN)


async def test_the_model_is_loaded_by_asking_nothing(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    loaded = await chatter.generate(RAG, "")
    unloaded = [await chatter.chat(RAG, [], keep_alive=0), await chatter.generate(RAG, "", keep_alive=0)]
    embedding = await chatter.embeddings("all-MiniLM-L6-v2", "")

    assert (loaded.done, loaded.done_reason, loaded.response) == (True, "load", "")
    assert [(each.done, each.done_reason) for each in unloaded] == [(True, "unload")] * 2
    assert list(embedding.embedding) == []
    assert model.requests == []


async def test_a_model_that_is_here_can_be_pulled(chatter: ollama.AsyncClient, parts: ApiParts) -> None:
    for name in (RAG, f"{RAG}:latest", CHAT_MODEL, parts.embedder.model.name):
        assert (await chatter.pull(name)).status == "success"
        assert [each.status async for each in await chatter.pull(name, stream=True)] == ["success"]
    with pytest.raises(ollama.ResponseError, match=r"^model 'gemma' not found") as refused:
        await chatter.pull("gemma")
    assert refused.value.status_code == 404


async def test_a_text_that_is_too_long_is_cut_unless_the_client_forbids_it(
    quoter: ollama.AsyncClient, parts: ApiParts
) -> None:
    name, most = parts.embedder.model.name, parts.embedder.tokens.max_tokens
    long = "  " + "lamp " * (most + 100)

    both = await quoter.embed(name, ["a lantern", long])
    old = await quoter.embeddings(name, long)

    own = await parts.embedder.embed_documents(["a lantern", "lamp " * most])
    assert np.allclose(both.embeddings, own, atol=1e-6)
    assert np.allclose(old.embedding, own[1], atol=1e-6)
    with pytest.raises(ollama.ResponseError, match="accepts at most") as refused:
        await quoter.embed(name, long, truncate=False)
    assert refused.value.status_code == 400


async def test_what_the_model_refuses_is_the_request_s_fault(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    model.fault = "400"  # as Ollama's for tools, where the model has none

    for _ in range(2 * MOST_FAILURES):
        with pytest.raises(ollama.ResponseError, match="answered 400: fault 400") as refused:
            await chatter.chat(CHAT_MODEL, WHEN)
        assert refused.value.status_code == 422
    asked = len(model.bodies("/api/chat"))
    model.fault = None

    assert (await chatter.chat(CHAT_MODEL, WHEN)).message.content == model.reply
    assert asked == 2 * MOST_FAILURES  # once each


async def test_a_model_alone_follows_a_system_message(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    system: Any = [{"role": "system", "content": "Say when the lantern is lit."}]

    told = await chatter.chat(CHAT_MODEL, system)

    assert told.message.content == model.reply
    assert model.bodies("/api/chat")[0]["messages"] == system
    with pytest.raises(ollama.ResponseError, match="must have a message with the role user"):
        await chatter.chat(RAG, system)


async def test_options_system_and_tools_reach_the_model(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    tool: Any = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}
    model.calls = [{"function": {"name": "tide", "arguments": {"port": "Skerrow"}}}]

    told = await chatter.chat(
        CHAT_MODEL, WHEN, tools=[tool], options={"temperature": 0.5, "num_predict": 7, "mirostat": 1}, think=False
    )
    await chatter.generate(CHAT_MODEL, "Hello", system="Be brief.")

    chatted, generated = model.bodies("/api/chat")
    assert (chatted["options"]["temperature"], chatted["options"]["num_predict"]) == (0.5, 7)
    [call] = told.message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("tide", {"port": "Skerrow"})
    assert generated["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_failure_within_a_stream_is_a_line(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    model.fault = "error"

    with pytest.raises(ollama.ResponseError, match="the runner was killed"):
        [_ async for _ in await chatter.chat(CHAT_MODEL, WHEN, stream=True)]


async def test_who_leaves_a_stream_stops_the_model(chatter: ollama.AsyncClient, model: FakeOllama) -> None:
    model.fault = "stall"
    stream: Any = await chatter.chat(CHAT_MODEL, WHEN, stream=True)
    async for _ in stream:
        break
    await stream.aclose()

    async with asyncio.timeout(30):
        await model.left.wait()


async def test_texts_are_embedded_in_the_new_way_and_the_old(quoter: ollama.AsyncClient, parts: ApiParts) -> None:
    name = parts.embedder.model.name

    both = await quoter.embed(name, ["a lantern", "a heron"])
    nothing = await quoter.embed(name, "")
    old = await quoter.embeddings(f"{name}:latest", "a lantern")

    [own] = await parts.embedder.embed_documents(["a lantern"])
    assert np.allclose(both.embeddings[0], own, atol=1e-6)
    assert np.allclose(old.embedding, own, atol=1e-6)
    assert (len(both.embeddings), nothing.embeddings) == (2, [])
    with pytest.raises(ollama.ResponseError, match="not found; this server has"):
        await quoter.embed("nomic-embed-text", "x")


async def test_the_root_answers_the_command_line_and_keeps_its_page(quoting: Site) -> None:
    heartbeat = await quoting.http.head("/")
    page = await quoting.http.get("/")

    assert heartbeat.status_code == 200
    assert page.json()["name"] == "Sluice"


async def test_keys_and_roles_hold_for_ollama_s_routes(quoting: Site) -> None:
    stranger = await quoting.http.get("/api/tags", headers={"Authorization": "Bearer nobody's"})
    writer = await quoting.http.get("/api/tags", headers={"Authorization": "Bearer key-writer"})
    nowhere = await quoting.http.get("/tags")

    assert (stranger.status_code, stranger.json()["error"]) == (401, "the API key is unknown")
    assert (writer.status_code, nowhere.status_code) == (403, 404)


# Whose contract /api/chat is


@pytest.mark.feature(163)
async def test_api_chat_answers_each_client_in_its_own_contract(quoting: Site) -> None:
    agentx = {"message": QUESTION, "useRag": True, "model": "extractive"}
    as_agentx = await quoting.http.post("/api/chat", json=agentx)
    as_ollama = await quoting.http.post("/api/chat", json={"model": QUOTES, "messages": WHEN, "stream": False})
    always_agentx = await quoting.http.post("/chat", json={"model": "extractive", "messages": WHEN})

    assert as_agentx.json()["status"] == "success"
    assert as_agentx.json()["data"]["message"]["content"] == as_ollama.json()["message"]["content"]
    assert "status" not in as_ollama.json()
    assert "useRag" in problem(always_agentx, 501, "NO_MODEL")


async def test_a_body_of_both_is_agentx_s(quoting: Site) -> None:
    both = {"model": "extractive", "messages": WHEN, "options": {"temperature": 0}, "useRag": True}

    reply = await quoting.http.post("/api/chat", json=both)

    assert (reply.json()["status"], reply.json()["ragUsed"]) == ("success", True)


@pytest.mark.parametrize("wanted", ["json", {"type": "object", "required": ["lit"]}])
async def test_wanted_json_comes_as_the_model_wrote_it(
    chatter: ollama.AsyncClient, model: FakeOllama, wanted: Any
) -> None:
    chat = await chatter.chat(f"{RAG}:inline", WHEN, format=wanted)
    pieces = [part.message.content or "" async for part in await chatter.chat(RAG, WHEN, format=wanted, stream=True)]
    prompt = await chatter.generate(RAG, QUESTION, format=wanted)

    assert [chat.message.content, "".join(pieces), prompt.response] == [model.json_reply] * 3
    assert [body["format"] for body in model.bodies("/api/chat")] == [wanted] * 3


async def test_json_that_cannot_be_written_is_a_400_that_names_the_format(
    quoter: ollama.AsyncClient, chatting: Site
) -> None:
    with pytest.raises(ollama.ResponseError, match="format: extractive only quotes documents; JSON needs") as quotes:
        await quoter.chat(QUOTES, WHEN, format="json")
    wrong = await chatting.http.post("/api/generate", json={"model": RAG, "prompt": QUESTION, "format": "yaml"})

    assert quotes.value.status_code == 400
    assert (wrong.status_code, "format: must be a JSON Schema" in wrong.json()["error"]) == (400, True)
