"""OpenAI's Responses API by OpenAI's own client."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import openai
import pydantic
import pytest
import pytest_asyncio

from services.query_api.answer.answering import NOTHING_FOUND
from services.query_api.clients.responses import tool_choice_of
from tests.integration.clients.site import Site
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "When is the lantern lit?"
RAG = f"rag/{CHAT_MODEL}"


@pytest_asyncio.fixture(loop_scope="session")
async def client(chatting: Site) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{chatting.url}/v1", api_key=chatting.key, max_retries=0) as client:
        yield client


async def test_an_answer_has_its_citations(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    told = await client.responses.create(model=RAG, input=QUESTION, instructions="Be brief.")

    assert (told.status, told.output_text) == ("completed", model.reply)
    [message] = told.output
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    cited = part.annotations[0]
    assert cited.type == "url_citation"
    assert (cited.title, part.text[cited.start_index : cited.end_index]) == ("Lantern", "[1]")
    assert told.usage is not None
    assert told.usage.total_tokens == told.usage.input_tokens + told.usage.output_tokens > 5
    assert "Be brief." in model.bodies("/api/chat")[0]["messages"][0]["content"]


async def test_a_stream_ends_with_the_whole_response(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    events = [
        event async for event in await client.responses.create(model=f"{RAG}:inline", input=QUESTION, stream=True)
    ]

    assert [event.sequence_number for event in events] == list(range(len(events)))
    first, *_, last = events
    assert (first.type, last.type) == ("response.created", "response.completed")
    assert last.type == "response.completed"
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == last.response.output_text
    assert last.response.output_text.startswith(f"{model.reply}\n\n**Sources**")
    assert "response.output_text.annotation.added" in {event.type for event in events}


async def test_a_conversation_with_tools_is_read_item_by_item(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    tool: Any = {"type": "function", "name": "tide", "parameters": {"type": "object"}, "strict": True}
    model.calls = [{"function": {"name": "tide", "arguments": {"port": "Skerrow"}}}]
    asked = await client.responses.create(model=CHAT_MODEL, input=QUESTION, tools=[tool, {"type": "web_search"}])
    [call] = [each for each in asked.output if each.type == "function_call"]
    model.calls = []

    history: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "reasoning", "id": "r", "summary": []},
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "At noon."},
    ]
    await client.responses.create(model=CHAT_MODEL, input=history, tools=[tool])

    assert (call.name, json.loads(call.arguments)) == ("tide", {"port": "Skerrow"})
    first, second = model.bodies("/api/chat")
    assert [each["function"]["name"] for each in first["tools"]] == ["tide"]
    assert [each["role"] for each in second["messages"]] == ["system", "user", "assistant", "tool"]


async def test_calls_of_one_turn_stay_one_message(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    def call(name: str) -> Any:
        return {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}

    def result(name: str) -> Any:
        return {"type": "function_call_output", "call_id": name, "output": name}

    history = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look it up."}]},
        *(call("tide"), call("moon"), result("tide"), result("moon")),
        *(call("wind"), result("wind")),
        {"role": "user", "content": "And then?"},
    ]
    await client.responses.create(model=CHAT_MODEL, input=history)

    sent = model.bodies("/api/chat")[0]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool", "assistant", "tool", "user"]
    assert sent[1]["content"] == "I look it up."
    assert [each["function"]["name"] for each in sent[1]["tool_calls"]] == ["tide", "moon"]
    assert [each["function"]["name"] for each in sent[4]["tool_calls"]] == ["wind"]


class Lighting(pydantic.BaseModel):
    lit: str
    hours: list[int]


async def test_wanted_json_comes_as_the_model_wrote_it(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    told = await client.responses.parse(model=f"{RAG}:inline", input=QUESTION, text_format=Lighting)
    async with client.responses.stream(model=RAG, input=QUESTION, text_format=Lighting) as stream:
        streamed = await (await stream.until_done()).get_final_response()

    assert told.output_parsed == streamed.output_parsed == Lighting(lit="at six", hours=[9])
    assert told.output_text == model.json_reply
    assert told.text is not None
    assert told.text.format is not None
    assert told.text.format.type == "json_schema"
    assert model.bodies("/api/chat")[0]["format"]["required"] == ["lit", "hours"]


async def test_where_nothing_is_found_json_is_refused(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    extra = {"ragFilters": {"tags": ["no such tag"]}}

    told = await client.responses.parse(model=RAG, input=QUESTION, text_format=Lighting, extra_body=extra)
    events = [
        event
        async for event in await client.responses.create(
            model=RAG, input=QUESTION, text={"format": {"type": "json_object"}}, extra_body=extra, stream=True
        )
    ]

    [message] = told.output
    assert message.type == "message"
    assert (message.content[0].type, told.output_parsed) == ("refusal", None)
    pieces = [event.delta for event in events if event.type == "response.refusal.delta"]
    whole = [event.refusal for event in events if event.type == "response.refusal.done"]
    assert ["".join(pieces)] == whole == [NOTHING_FOUND]
    assert "response.output_text.done" not in {event.type for event in events}
    assert model.requests == []


SEARCH: Any = {"type": "file_search", "vector_store_ids": ["documents"]}
BIRDS: Any = {"type": "eq", "key": "tags", "value": "birds"}


async def test_the_file_search_tool_searches_the_documents_and_is_cited_by_file(
    client: openai.AsyncOpenAI, model: FakeOllama, chatting: Site
) -> None:
    told = await client.responses.create(
        model=CHAT_MODEL,
        input=QUESTION,
        tools=[SEARCH | {"max_num_results": 1}],
        tool_choice={"type": "file_search"},
        include=["file_search_call.results"],
    )
    without = await client.responses.create(model=CHAT_MODEL, input=QUESTION, tools=[SEARCH])

    call, message = told.output
    assert call.type == "file_search_call"
    assert (call.status, call.queries) == ("completed", [QUESTION])
    [result] = call.results or []
    assert (result.file_id, result.filename) == (chatting.lantern, "lantern.md")
    assert "six in the evening" in (result.text or "")
    assert result.score is not None
    assert (result.attributes or {})["title"] == "Lantern"
    assert message.type == "message"
    part = message.content[0]
    assert part.type == "output_text"
    cited = [(each.index, each.file_id, each.filename) for each in part.annotations if each.type == "file_citation"]
    marks = [found.start() for found in re.finditer(r"\[1\]", part.text)]
    assert cited == [(at, chatting.lantern, "lantern.md") for at in marks]
    assert len(part.annotations) == len(marks) == 2
    body = model.bodies("/api/chat")[0]
    assert "[CONTEXT START]" in body["messages"][-1]["content"]
    assert "tools" not in body
    assert without.output[0].type == "file_search_call"
    assert without.output[0].results is None


async def test_a_stream_tells_of_the_file_search_before_the_text(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    model.calls = [{"function": {"name": "tide", "arguments": {}}}]
    tide: Any = {"type": "function", "name": "tide", "parameters": {"type": "object"}, "strict": True}
    async with client.responses.stream(
        model=CHAT_MODEL, input=QUESTION, tools=[SEARCH, tide], include=["file_search_call.results"]
    ) as stream:
        events = [event async for event in stream]
        whole = await stream.get_final_response()

    kinds = [event.type for event in events]
    assert [kind for kind in kinds if "file_search" in kind] == [
        f"response.file_search_call.{step}" for step in ("in_progress", "searching", "completed")
    ]
    assert kinds.index("response.file_search_call.completed") < kinds.index("response.output_text.delta")
    assert [(event.output_index, event.item.type) for event in events if event.type == "response.output_item.done"] == [
        (0, "file_search_call"),
        (1, "message"),
        (2, "function_call"),
    ]
    assert [item.type for item in whole.output] == ["file_search_call", "message", "function_call"]
    begun = next(event.item for event in events if event.type == "response.output_item.added")
    assert begun.type == "file_search_call"
    assert (begun.status, begun.results) == ("in_progress", None)
    ended: list[Any] = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.id for item in ended] == [item["id"] for item in whole.model_dump()["output"]]
    assert whole.output_text == model.reply


async def test_the_file_search_s_filters_and_threshold_are_the_search_s(
    client: openai.AsyncOpenAI, model: FakeOllama, chatting: Site
) -> None:
    async def used(question: str = QUESTION, **options: Any) -> list[str]:
        extra = {name: options.pop(name) for name in ("ragFilters", "useRag") if name in options}
        told = await client.responses.create(
            model=CHAT_MODEL, input=question, tools=[SEARCH | options], extra_body=extra
        )
        sources: Any = (told.model_extra or {})["ragSources"]
        return [each["documentId"] for each in sources]

    nest = "Where do herons nest?"
    assert await used() == await used(ranking_options={"score_threshold": 0}) == [chatting.lantern]
    assert await used(nest) == await used(nest, filters=BIRDS) == [chatting.herons]
    assert await used(filters=BIRDS) == await used(nest, filters=BIRDS, ragFilters={"tags": "light"}) == []
    assert await used(ranking_options={"score_threshold": 1.0}) == []
    assert await used(useRag=False) == []


@pytest.mark.parametrize(
    ("tools", "error", "said"),
    [
        (
            [SEARCH | {"vector_store_ids": ["vs_1"]}],
            openai.NotFoundError,
            "no vector store 'vs_1'; there is 'documents'",
        ),
        ([SEARCH, SEARCH], openai.BadRequestError, r"tools\[1\]: is a second file_search"),
        ([SEARCH | {"max_num_results": 0}], openai.BadRequestError, r"tools\[0\].*max_num_results"),
        ([SEARCH | {"filters": {"type": "or"}}], openai.UnprocessableEntityError, r"tools\[0\]\.filters\.type: 'or'"),
    ],
)
async def test_a_file_search_that_cannot_be_done_is_refused(
    client: openai.AsyncOpenAI, model: FakeOllama, tools: Any, error: type[openai.APIStatusError], said: str
) -> None:
    with pytest.raises(error, match=said):
        await client.responses.create(model=CHAT_MODEL, input=QUESTION, tools=tools)

    assert model.requests == []


async def test_a_function_that_is_demanded_is_named_as_chat_completions_name_it(
    client: openai.AsyncOpenAI, quoting: Site
) -> None:
    tool = {"type": "function", "name": "tide", "parameters": {"type": "object"}}
    order = {"model": "rag/extractive", "input": QUESTION, "tools": [tool]}

    demanded = await quoting.http.post(
        "/v1/responses", json={**order, "tool_choice": {"type": "function", "name": "tide"}}
    )
    offered = await quoting.http.post("/v1/responses", json={**order, "tool_choice": "auto"})

    assert (demanded.status_code, demanded.json()["error"]["param"]) == (400, "tool_choice")
    assert offered.status_code == 200
    assert tool_choice_of({"type": "function", "name": "tide"}) == {"type": "function", "function": {"name": "tide"}}
    assert [tool_choice_of(each) for each in (None, "required", {"type": "file_search"})] == [None, "required", "auto"]


async def test_what_would_have_to_be_kept_is_refused(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    with pytest.raises(openai.BadRequestError, match="nothing is kept between requests"):
        await client.responses.create(model=RAG, input=QUESTION, previous_response_id="resp_1")
    with pytest.raises(openai.BadRequestError, match="input: must have a message with the role user"):
        await client.responses.create(model=RAG, input=[])


async def test_a_failure_within_a_stream_is_an_event(client: openai.AsyncOpenAI, model: FakeOllama) -> None:
    model.fault = "error"

    *_, last = [event async for event in await client.responses.create(model=CHAT_MODEL, input=QUESTION, stream=True)]

    assert last.type == "error"
    assert (last.code, "the runner was killed" in last.message) == ("unavailable", True)
