"""OpenAI's API by OpenAI's own client, and what other clients send of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import openai
import pydantic
import pytest
import pytest_asyncio

from services.query_api.answer.answering import NOTHING_FOUND
from services.query_api.app import ApiParts
from tests.integration.api import a_client, an_app
from tests.integration.clients.site import Site
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

pytestmark = pytest.mark.asyncio(loop_scope="session")

WHEN: Any = [{"role": "user", "content": "When is the lantern lit?"}]
QUOTES = "rag/extractive"
RAG = f"rag/{CHAT_MODEL}"


def _client(site: Site) -> openai.AsyncOpenAI:
    plain = httpx.AsyncClient(verify=False)  # reading the system's certificates takes 45 ms of each test
    return openai.AsyncOpenAI(base_url=f"{site.url}/v1", api_key=site.key, max_retries=0, http_client=plain)


@pytest_asyncio.fixture(loop_scope="session")
async def quoter(quoting: Site) -> AsyncIterator[openai.AsyncOpenAI]:
    async with _client(quoting) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def chatter(chatting: Site) -> AsyncIterator[openai.AsyncOpenAI]:
    async with _client(chatting) as client:
        yield client


# Models


async def test_the_models_that_can_be_asked_are_listed(
    quoter: openai.AsyncOpenAI, chatter: openai.AsyncOpenAI, parts: ApiParts
) -> None:
    embedding = parts.embedder.model.name

    assert [each.id async for each in quoter.models.list()] == [QUOTES, f"{QUOTES}:inline", embedding]
    assert [each.id async for each in chatter.models.list()] == [RAG, f"{RAG}:inline", CHAT_MODEL, embedding]
    assert (await chatter.models.retrieve(RAG)).id == RAG


async def test_an_unknown_model_is_a_404_that_lists_those_there_are(chatter: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"'gpt-4o' not found; this server has {RAG}") as listed:
        await chatter.models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError) as asked:
        await chatter.chat.completions.create(model="gpt-4o", messages=WHEN)

    assert (listed.value.code, asked.value.code, asked.value.param) == ("model_not_found", "model_not_found", "model")


# Chat completions


@pytest.mark.feature(183)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/api/chat", "/api/generate"])
async def test_nobody_is_answered_without_a_key_that_may_ask(chatting: Site, model: FakeOllama, path: str) -> None:
    order = {"model": CHAT_MODEL, "messages": WHEN, "input": "x", "prompt": "x"}

    refused = [
        (await chatting.http.post(path, json=order, headers={"Authorization": f"Bearer {key}"})).status_code
        for key in ("nobody's", "key-writer")
    ]

    assert refused == [401, 403]
    assert model.requests == []


@pytest.mark.feature(165)
@pytest.mark.feature(164)
async def test_an_answer_carries_its_sources_in_each_place_that_clients_read(
    quoter: openai.AsyncOpenAI, quoting: Site
) -> None:
    told = await quoter.chat.completions.create(
        model=QUOTES, messages=WHEN, extra_body={"ragTopK": 1, "ragFilters": {"tags": ["light"]}}
    )

    [choice] = told.choices
    text = choice.message.content or ""
    assert "six in the evening. [1]" in text
    assert choice.finish_reason == "stop"
    [annotation] = choice.message.annotations or []
    cited = annotation.url_citation
    assert text[cited.start_index : cited.end_index] == "[1]"
    assert cited.title == "Lantern"
    assert cited.url.startswith(f"{quoting.url}/documents/{quoting.lantern}?chunk=")
    more: Any = told.model_extra
    assert more["citations"] == [cited.url]
    assert (more["ragUsed"], [each["documentId"] for each in more["ragSources"]]) == (True, [quoting.lantern])
    assert told.usage is not None
    assert told.usage.total_tokens == told.usage.prompt_tokens + told.usage.completion_tokens > 20


async def test_the_link_of_a_citation_opens_its_passage_in_a_browser(quoter: openai.AsyncOpenAI, quoting: Site) -> None:
    told = await quoter.chat.completions.create(model=QUOTES, messages=WHEN)

    annotation = (told.choices[0].message.annotations or [])[0]
    url = annotation.url_citation.url
    page = await quoting.http.get(url, headers={"Accept": "text/html"})
    chunks = (await quoting.http.get(f"/rag/documents/{quoting.lantern}/chunks")).json()["items"]
    [passage] = [each for each in chunks if each["metadata"]["chunkId"] == url.partition("?chunk=")[2]]
    assert page.headers["content-type"].startswith("text/html")
    assert "six in the evening" in passage["text"]


@pytest.mark.feature(182)
async def test_a_stream_ends_with_annotations_in_the_finishing_chunk_and_usage_behind_it(
    chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    stream = await chatter.chat.completions.create(
        model=RAG, messages=WHEN, stream=True, stream_options={"include_usage": True}
    )
    first, *middle, last, counted = [chunk async for chunk in stream]

    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in middle) == model.reply
    assert len(middle) > 5
    assert {chunk.choices[0].finish_reason for chunk in middle} == {None}
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].delta.content is None
    extra: Any = last.choices[0].delta.model_extra
    assert {each["type"] for each in extra["annotations"]} == {"url_citation"}
    assert (counted.choices, first.usage) == ([], None)
    assert counted.usage is not None
    assert counted.usage.completion_tokens > 5


async def test_the_bytes_of_a_stream_are_events_and_done(chatting: Site) -> None:
    reply = await chatting.http.post(
        "/v1/chat/completions", json={"model": CHAT_MODEL, "messages": WHEN, "stream": True}
    )

    *events, done, end = reply.text.split("\n\n")
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-cache"
    assert (done, end) == ("data: [DONE]", "")
    assert all("usage" not in json.loads(event.removeprefix("data: ")) for event in events)


@pytest.mark.feature(170)
async def test_the_model_s_name_or_use_rag_decides_whether_documents_are_searched(
    chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    async def used(name: str, **extra: Any) -> tuple[bool, bool]:
        told = await chatter.chat.completions.create(model=name, messages=WHEN, extra_body=extra)
        prompt = model.bodies("/api/chat")[-1]["messages"][-1]["content"]
        assert told.model == name
        return bool((told.model_extra or {})["ragUsed"]), "[CONTEXT START]" in prompt

    assert await used(RAG) == (True, True)
    assert await used(CHAT_MODEL) == (False, False)
    assert await used(CHAT_MODEL, useRag=True) == (True, True)
    assert await used(RAG, useRag=False) == (False, False)


async def test_inline_puts_the_cited_sources_at_the_end_of_the_text(
    chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    whole = await chatter.chat.completions.create(model=f"{RAG}:inline", messages=WHEN)
    stream = await chatter.chat.completions.create(model=f"{RAG}:inline", messages=WHEN, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    text = whole.choices[0].message.content or ""
    assert text.startswith(f"{model.reply}\n\n**Sources**\n\n1. [")
    assert text.count("](http://") == 1  # [1] alone is cited
    assert "".join(pieces) == text


async def test_messages_are_read_as_every_client_writes_them(chatter: openai.AsyncOpenAI, model: FakeOllama) -> None:
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": "Good evening"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "How are you?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
    ]

    await chatter.chat.completions.create(model=CHAT_MODEL, messages=messages)

    assert [(each["role"], each["content"]) for each in model.bodies("/api/chat")[0]["messages"]] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Good evening"),
        ("user", "How are you?"),
    ]


async def test_fields_nothing_here_can_act_on_are_ignored(chatter: openai.AsyncOpenAI, model: FakeOllama) -> None:
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}

    told = await chatter.chat.completions.create(
        model=CHAT_MODEL,
        messages=WHEN,
        temperature=0.2,
        top_p=1,
        presence_penalty=0,
        frequency_penalty=0,
        user="u1",
        seed=7,
        n=1,
        logprobs=True,
        tools=[tool],
        tool_choice="auto",
        extra_body={"chat_template_kwargs": {}, "stop": None},
    )

    assert told.choices[0].message.content == model.reply
    assert told.choices[0].logprobs is None


async def test_a_prompt_is_answered_as_a_chat_is(
    quoter: openai.AsyncOpenAI, chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    prompt = WHEN[0]["content"]
    chat = await quoter.chat.completions.create(model=QUOTES, messages=WHEN)

    whole = await quoter.completions.create(model=QUOTES, prompt=[prompt], max_tokens=256)
    stream: Any = await quoter.completions.create(
        model=QUOTES, prompt=prompt, stream=True, stream_options={"include_usage": True}
    )
    *pieces, last, counted = [part async for part in stream]
    bare = await chatter.completions.create(model=CHAT_MODEL, prompt=prompt, suffix="x", stop=["\n"])

    assert whole.choices[0].text == chat.choices[0].message.content == "".join(each.choices[0].text for each in pieces)
    assert {each.object for each in (whole, *pieces, last)} == {"text_completion"}
    assert (whole.choices[0].finish_reason, last.choices[0].finish_reason, last.choices[0].text) == ("stop", "stop", "")
    assert whole.usage is not None
    assert counted.usage is not None
    assert whole.usage.completion_tokens == counted.usage.completion_tokens > 0
    assert bare.choices[0].text == model.reply
    for wrong in ([prompt, prompt], [1, 2], []):
        with pytest.raises(openai.BadRequestError, match="prompt: must be one text"):
            await quoter.completions.create(model=QUOTES, prompt=wrong)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": "none"}, "tools"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": 7}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        (
            {"messages": [*WHEN, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "["}}]}]},
            None,
        ),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": "hello"}, "messages"),
        ({"extra_body": {"ragTopK": 0}}, "ragTopK"),
        ({"extra_body": {"ragFilters": {"tenant": "t1"}}}, "ragFilters.tenant"),
    ],
)
async def test_what_cannot_be_done_is_a_400_that_names_it(
    chatter: openai.AsyncOpenAI, wrong: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await chatter.chat.completions.create(**({"model": RAG, "messages": WHEN} | wrong))

    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")


async def test_open_webui_s_own_prompts_search_nothing(
    chatter: openai.AsyncOpenAI, quoter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    task: Any = [{"role": "user", "content": "### Task:\nGenerate a title about the lantern.\n<chat_history>…"}]

    told = await chatter.chat.completions.create(model=RAG, messages=task)
    quoted = await quoter.chat.completions.create(model=QUOTES, messages=task)

    assert (told.model_extra or {})["ragUsed"] is False
    assert "[CONTEXT START]" not in model.bodies("/api/chat")[0]["messages"][-1]["content"]
    assert quoted.choices[0].message.content == ""


@pytest.mark.feature(180)
async def test_a_client_s_own_tools_reach_the_model_and_its_calls_come_back(
    chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    tool: Any = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}
    model.calls = [{"function": {"name": "tide", "arguments": {"port": "Skerrow"}}}]
    model.reply = ""

    asked = await chatter.chat.completions.create(model=CHAT_MODEL, messages=WHEN, tools=[tool])
    stream = await chatter.chat.completions.create(model=CHAT_MODEL, messages=WHEN, tools=[tool], stream=True)
    *_, called, last = [chunk async for chunk in stream]
    [call] = asked.choices[0].message.tool_calls or []
    followed: Any = [
        *WHEN,
        asked.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "High at noon."},
    ]
    model.calls = []
    await chatter.chat.completions.create(model=CHAT_MODEL, messages=followed, tools=[tool])

    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("tide", {"port": "Skerrow"})
    assert (asked.choices[0].finish_reason, asked.choices[0].message.content) == ("tool_calls", None)
    [streamed] = called.choices[0].delta.tool_calls or []
    assert (streamed.index, streamed.function and streamed.function.name) == (0, "tide")
    assert last.choices[0].finish_reason == "tool_calls"
    assert model.bodies("/api/chat")[0]["tools"] == [tool]
    assert [each["role"] for each in model.bodies("/api/chat")[-1]["messages"]] == ["user", "assistant", "tool"]


# JSON


class Lighting(pydantic.BaseModel):
    lit: str
    hours: list[int]


@pytest.mark.parametrize("name", [RAG, f"{RAG}:inline", CHAT_MODEL])
async def test_wanted_json_comes_as_the_model_wrote_it_whole_and_streamed(
    chatter: openai.AsyncOpenAI, model: FakeOllama, name: str
) -> None:
    told = await chatter.chat.completions.parse(model=name, messages=WHEN, response_format=Lighting)
    async with chatter.chat.completions.stream(model=name, messages=WHEN, response_format=Lighting) as stream:
        streamed = await stream.get_final_completion()

    for each in (told, streamed):
        assert each.choices[0].message.content == model.json_reply
        assert each.choices[0].message.parsed == Lighting(lit="at six", hours=[9])
    assert (told.model_extra or {})["ragUsed"] is (name != CHAT_MODEL)
    assert bool(told.choices[0].message.annotations) is (name != CHAT_MODEL)
    assert model.bodies("/api/chat")[0]["format"]["required"] == ["lit", "hours"]


async def test_where_nothing_is_found_json_is_refused_in_the_field_for_it(
    chatter: openai.AsyncOpenAI, model: FakeOllama
) -> None:
    extra = {"ragFilters": {"tags": ["no such tag"]}}

    told = await chatter.chat.completions.parse(model=RAG, messages=WHEN, response_format=Lighting, extra_body=extra)
    async with chatter.chat.completions.stream(
        model=RAG, messages=WHEN, response_format=Lighting, extra_body=extra
    ) as stream:
        streamed = await stream.get_final_completion()

    for each in (told, streamed):
        message = each.choices[0].message
        assert (message.content, message.parsed, message.refusal) == (None, None, NOTHING_FOUND)
    assert model.requests == []


async def test_a_model_that_only_quotes_refuses_json_before_it_searches(quoter: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="extractive only quotes documents; JSON needs") as refused:
        await quoter.chat.completions.parse(model=QUOTES, messages=WHEN, response_format=Lighting)
    prose = await quoter.chat.completions.create(model=QUOTES, messages=WHEN, response_format={"type": "text"})

    assert refused.value.param == "response_format"
    assert "six in the evening" in (prose.choices[0].message.content or "")


async def test_a_model_that_only_quotes_refuses_a_call_that_is_demanded(quoter: openai.AsyncOpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}
    demands: list[Any] = ["required", {"type": "function", "function": {"name": "tide"}}]

    for demand in demands:
        with pytest.raises(openai.BadRequestError, match="calling tools needs a language model") as refused:
            await quoter.chat.completions.create(model=QUOTES, messages=WHEN, tools=[tool], tool_choice=demand)
        assert refused.value.param == "tool_choice"
    offered = await quoter.chat.completions.create(model=QUOTES, messages=WHEN, tools=[tool], tool_choice="auto")

    assert "six in the evening" in (offered.choices[0].message.content or "")


# Failures


async def test_failures_are_told_as_openai_tells_them(
    chatter: openai.AsyncOpenAI, quoting: Site, model: FakeOllama
) -> None:
    model.fault = "500"
    with pytest.raises(openai.InternalServerError) as away:
        await chatter.chat.completions.create(model=CHAT_MODEL, messages=WHEN)
    stranger = openai.AsyncOpenAI(base_url=f"{quoting.url}/v1", api_key="nobody's", max_retries=0)
    writer = openai.AsyncOpenAI(base_url=f"{quoting.url}/v1", api_key="key-writer", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as unknown:
        await stranger.models.list()
    with pytest.raises(openai.PermissionDeniedError) as forbidden:
        await writer.models.list()
    plain = await quoting.http.post("/v1/chat/completions", json={"model": "extractive", "messages": WHEN})
    nowhere = await quoting.http.post("/v1/assistants", json={})
    broken = await quoting.http.post("/v1/embeddings", content=b"{", headers={"Content-Type": "application/json"})

    assert (away.value.status_code, away.value.response.headers["retry-after"]) == (503, "5")
    assert "the API key is unknown" in unknown.value.message
    assert (unknown.value.type, forbidden.value.type) == ("authentication_error", "permission_error")
    assert (plain.status_code, plain.json()["error"]["code"]) == (501, "no_model")
    assert plain.headers["x-should-retry"] == "false"  # it would wait for what never comes
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "not_found")
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
    await stranger.close()
    await writer.close()


async def test_too_many_at_once_is_a_rate_limit(parts: ApiParts) -> None:
    none = parts.settings.model_copy(update={"max_requests": 0})
    async with a_client(an_app(parts, settings=none), "t0") as client:
        reply = await client.get("/v1/models")

    assert (reply.status_code, reply.json()["error"]["type"]) == (429, "rate_limit_error")
    assert reply.headers["retry-after"]


async def test_a_failure_within_a_stream_is_an_event_before_done(chatting: Site, model: FakeOllama) -> None:
    model.fault = "error"
    reply = await chatting.http.post(
        "/v1/chat/completions", json={"model": CHAT_MODEL, "messages": WHEN, "stream": True}
    )

    *_, failed, done, _ = reply.text.split("\n\n")
    error = json.loads(failed.removeprefix("data: "))["error"]
    assert (error["type"], error["code"]) == ("server_error", "unavailable")
    assert "the runner was killed" in error["message"]
    assert done == "data: [DONE]"


async def test_who_leaves_a_stream_stops_the_model(chatter: openai.AsyncOpenAI, model: FakeOllama) -> None:
    model.fault = "stall"
    stream = await chatter.chat.completions.create(model=CHAT_MODEL, messages=WHEN, stream=True)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.close()

    async with asyncio.timeout(30):
        await model.left.wait()


# Embeddings


async def test_embeddings_are_the_index_s_own_in_both_encodings(quoter: openai.AsyncOpenAI, parts: ApiParts) -> None:
    name = parts.embedder.model.name

    packed = await quoter.embeddings.create(model=name, input=["a lantern", "a heron"])
    plain = await quoter.embeddings.create(model=name, input="a lantern", encoding_format="float")

    [own] = await parts.embedder.embed_documents(["a lantern"])
    assert np.allclose(packed.data[0].embedding, own, atol=1e-6)
    assert np.allclose(plain.data[0].embedding, own, atol=1e-6)
    assert [each.index for each in packed.data] == [0, 1]
    assert packed.usage.total_tokens == packed.usage.prompt_tokens > 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"input": [1, 2, 3]}, "check_embedding_ctx_length=False"),
        ({"input": [[1, 2], [3]]}, "check_embedding_ctx_length=False"),
        ({"input": []}, "at least one"),
        ({"input": ["x", " "]}, r"input\[1\]: must be text that is not empty"),
        ({"input": "x", "dimensions": 5}, "dimensions: is 5; .* makes vectors of 384"),
        ({"input": "word " * 4000}, "tokens"),
    ],
)
async def test_what_cannot_be_embedded_is_a_400_that_says_why(
    quoter: openai.AsyncOpenAI, parts: ApiParts, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=said):
        await quoter.embeddings.create(model=parts.embedder.model.name, **wrong)


# Vector stores


async def test_the_documents_are_a_vector_store(quoter: openai.AsyncOpenAI, quoting: Site) -> None:
    [store] = [each async for each in quoter.vector_stores.list()]
    shown = await quoter.vector_stores.retrieve(store.id)
    birds: Any = {"type": "and", "filters": [{"type": "in", "key": "tags", "value": ["birds"]}]}
    found = [each async for each in quoter.vector_stores.search(store.id, query="When is the lantern lit?")]
    unequal: Any = {"type": "ne", "key": "tags", "value": "light"}
    others = [each async for each in quoter.vector_stores.search(store.id, query="lantern", filters=unequal)]
    filtered = [each async for each in quoter.vector_stores.search(store.id, query=["lantern", "nest"], filters=birds)]

    assert (shown.id, shown.file_counts.completed, shown.status) == (store.id, 2, "completed")
    assert (found[0].file_id, found[0].filename) == (quoting.lantern, "lantern.md")
    assert "six in the evening" in found[0].content[0].text
    assert (found[0].attributes or {})["title"] == "Lantern"
    assert {each.file_id for each in filtered} == {each.file_id for each in others} == {quoting.herons}


async def test_a_vector_store_refuses_what_it_has_not(quoter: openai.AsyncOpenAI) -> None:
    either: Any = {"type": "or", "filters": []}

    with pytest.raises(openai.NotFoundError, match="there is 'documents'"):
        await quoter.vector_stores.retrieve("vs_1")
    with pytest.raises(openai.UnprocessableEntityError, match="'or' is not supported"):
        await quoter.vector_stores.search("documents", query="x", filters=either)
    with pytest.raises(openai.BadRequestError, match="max_num_results"):
        await quoter.vector_stores.search("documents", query="x", max_num_results=51)
    for queries in ([], ["x"] * 33):
        with pytest.raises(openai.BadRequestError):
            await quoter.vector_stores.search("documents", query=queries)
