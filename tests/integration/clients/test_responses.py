"""OpenAI's Responses API by OpenAI's own client."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pydantic
import pytest
import pytest_asyncio

from services.query_api.answer.answering import NOTHING_FOUND
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
