"""Clients that can't run here: what they send, written from their documentation and source, and what they read."""

import json
from typing import Any

import pytest

from tests.integration.api import ingested
from tests.integration.clients.site import Site
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

pytestmark = pytest.mark.asyncio(loop_scope="session")

RAG = f"rag/{CHAT_MODEL}"
WHEN = [{"role": "user", "content": "When is the lantern lit?"}]


def chunks(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_librechat_always_sends_fields_of_others_and_reads_the_text_alone(
    chatting: Site, model: FakeOllama
) -> None:
    order = {
        "model": f"{RAG}:inline",
        "messages": [{"role": "system", "content": "Today is Sunday."}, *WHEN],
        "temperature": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stream": True,
        "user": "65f0c0ffee",
        "stop": None,
    }
    reply = await chatting.http.post("/v1/chat/completions", json=order)

    text = "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks(reply.text))
    assert text.startswith(model.reply)
    assert "**Sources**\n\n1. [" in text


async def test_lobechat_reads_annotations_from_the_finishing_chunk_only(chatting: Site) -> None:
    order = {"model": RAG, "messages": WHEN, "stream": True, "stream_options": {"include_usage": True}, "top_p": 1}
    reply = await chatting.http.post("/v1/chat/completions", json=order)

    *_, last, usage = chunks(reply.text)
    [choice] = last["choices"]
    assert choice["finish_reason"] == "stop"
    assert "content" not in choice["delta"]
    [first, *_] = choice["delta"]["annotations"]
    assert first["url_citation"].keys() == {"url", "title", "start_index", "end_index"}
    assert last["citations"][0] == first["url_citation"]["url"]
    assert (usage["choices"], usage["usage"]["total_tokens"] > 0) == ([], True)


async def test_open_webui_links_the_nth_source_to_its_number(chatting: Site) -> None:
    await ingested(
        chatting.http, "The lantern at the gate is lit at seven in the evening.", path="gate.md", title="Gate"
    )
    headers = {"X-OpenWebUI-User-Id": "7", "X-OpenWebUI-User-Role": "admin", "X-OpenWebUI-Chat-Id": "c"}
    order = {"model": RAG, "messages": WHEN, "stream": True, "chat_id": "c", "session_id": "s", "features": {}}
    reply = await chatting.http.post("/v1/chat/completions", json=order, headers=headers)

    sources: dict[str, str] = {}  # it counts the annotations of one URL as one source
    for each in chunks(reply.text):
        for annotation in each["choices"][0]["delta"].get("annotations", []):
            sources.setdefault(annotation["url_citation"]["url"], annotation["url_citation"]["title"])
    *_, last = chunks(reply.text)
    assert set(sources.values()) >= {"Lantern", "Gate"}
    assert list(sources.values()) == [each["metadata"]["title"] for each in last["ragSources"]]


async def test_open_webui_lists_ollama_s_models_by_three_routes(chatting: Site) -> None:
    tags = (await chatting.http.get("/api/tags")).json()["models"]
    version = (await chatting.http.get("/api/version")).json()
    loaded = (await chatting.http.get("/api/ps")).json()["models"]

    assert {each["model"] for each in tags} == {each["model"] for each in loaded}
    assert all(each["details"]["family"] and each["digest"] and each["modified_at"] for each in tags)
    assert version.keys() == {"version"}
