"""Ollama's answers against a server that fails in every way we have seen."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from shared.answers import Called, Conversation, Finished, JsonFormat, Passage, ToolCall, Turn
from shared.answers.ollama import OllamaAnswers
from shared.errors import Rejected, Unavailable
from shared.model_server.ollama import OllamaAddress
from tests.answering import pieces, said
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama, Fault, fake_ollama

PASSAGE = Passage(number=1, text="It is so.", title="Book", score=0.9, metadata={})
ASKED = Conversation(turns=(Turn(role="user", content="Is it so?"),), passages=(PASSAGE,))


@pytest.fixture
async def server() -> AsyncIterator[FakeOllama]:
    async with fake_ollama() as running:
        yield running


async def test_the_answer_comes_through_and_the_request_is_what_we_mean(server: FakeOllama) -> None:
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    answer = await said(answers, ASKED)

    assert answer == "According to [1]: it is so."
    [body] = server.bodies("/api/chat")
    assert (body["model"], body["stream"], body["think"]) == (CHAT_MODEL, True, False)
    assert (body["truncate"], body["shift"]) == (False, False)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["options"]["temperature"] == 0


async def test_plain_chat_passes_untouched(server: FakeOllama) -> None:
    server.reply = "x = [7], see [9]."
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    told = await pieces(answers, Conversation(turns=ASKED.turns))

    assert "".join(told) == server.reply
    assert "temperature" not in server.bodies("/api/chat")[0]["options"]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("500", "answered 500: fault 500"),
        ("503", "answered 503: fault 503"),
        ("404", r"has no model 'llama3\.2'; run: ollama pull llama3\.2"),
        ("html", "gave an invalid answer"),
        ("list", "gave an invalid answer"),
        ("redirect", "answered"),
        ("half", "can't be reached"),
        ("error", "answered: the runner was killed"),
        ("undone", "ended its stream before the end"),
    ],
)
async def test_a_fault_of_the_server_is_unavailable(server: FakeOllama, fault: Fault, sentence: str) -> None:
    server.fault = fault
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    with pytest.raises(Unavailable, match=sentence):
        async for _ in answers.stream(ASKED):
            pass


async def test_what_the_server_refuses_is_rejected(server: FakeOllama) -> None:
    server.fault = "400"

    with pytest.raises(Rejected, match="answered 400: fault 400"):
        await pieces(OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20), ASKED)


@pytest.mark.parametrize("fault", ["hang", "stall"])
async def test_a_server_that_falls_silent_is_unavailable_and_left(server: FakeOllama, fault: Fault) -> None:
    server.fault = fault
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=0.2)

    while not server.left.is_set():  # a loaded machine may take longer to send the question: nobody leaves then
        with pytest.raises(Unavailable, match="gave no answer in time"):
            async for _ in answers.stream(ASKED):
                pass


async def test_closing_the_iterator_leaves_the_server(server: FakeOllama) -> None:
    server.fault = "stall"
    pieces = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20).stream(ASKED)
    await anext(pieces)

    await pieces.aclose()

    await server.left.wait()


async def test_no_server_is_unavailable() -> None:
    async with fake_ollama() as server:
        gone = server.url

    with pytest.raises(Unavailable, match=f"Ollama at {gone} can't be reached"):
        await anext(OllamaAnswers(OllamaAddress(gone, CHAT_MODEL), timeout_s=20).stream(ASKED))


async def test_an_answer_that_reached_its_limit_ends_with_an_ellipsis(server: FakeOllama) -> None:
    server.fault = "length"
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)

    answer = await said(answers, ASKED)

    assert answer == "According to [1]: it is so. …"


async def test_a_conversation_longer_than_the_window_loses_passages_and_then_is_rejected(server: FakeOllama) -> None:
    passages = tuple(
        Passage(number=n, text="It is so. " * 100, title="Book", score=0.9, metadata={}) for n in range(1, 9)
    )
    server.window, server.reply = 1200, "So it is [1], and so [8]."
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)
    long = Conversation(turns=ASKED.turns, passages=passages)

    answer = await said(answers, long)

    assert answer == "So it is [1], and so."  # the eighth wasn't shown
    server.window = 10
    with pytest.raises(Rejected, match="longer than the model accepts") as caught:
        await anext(answers.stream(long))
    assert caught.value.code == "conversation_too_long"


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.mark.feature(180)
async def test_a_client_s_tools_reach_the_model_and_its_call_comes_back(server: FakeOllama) -> None:
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)
    conversation = msgspec.structs.replace(ASKED, tools=(TOOL,))
    server.calls = [{"function": {"name": "weather", "arguments": {"town": "Oslo"}}}]

    *_, called, end = [event async for event in answers.stream(conversation)]

    assert server.bodies("/api/chat")[0]["tools"] == [TOOL]
    assert called == Called((ToolCall(id="call_0", name="weather", arguments='{"town": "Oslo"}'),))
    assert isinstance(end, Finished)
    assert end.reason == "tool_calls"


@pytest.mark.feature(181)
async def test_what_a_tool_found_follows_its_call(server: FakeOllama) -> None:
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)
    call = ToolCall(id="c1", name="weather", arguments='{"town": "Oslo"}')
    turns = (
        *ASKED.turns,
        Turn(role="assistant", content="", tool_calls=(call,)),
        Turn(role="tool", content="Rain.", tool_call_id="c1", name="weather"),
    )

    await said(answers, Conversation(turns=turns))

    *_, asked, found = server.bodies("/api/chat")[0]["messages"]
    assert asked["tool_calls"] == [{"function": {"name": "weather", "arguments": {"town": "Oslo"}}}]
    assert found == {"role": "tool", "content": "Rain.", "tool_name": "weather"}


async def test_the_caller_s_sampling_goes_before_ours(server: FakeOllama) -> None:
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)
    server.fault = "length"
    wished = {"temperature": 0.7, "max_tokens": 5, "stop": ["END"], "seed": 1}

    answer = await said(answers, msgspec.structs.replace(ASKED, sampling=wished))

    assert not answer.endswith("…")
    options = server.bodies("/api/chat")[0]["options"]
    assert (options["temperature"], options["num_predict"], options["stop"], options["seed"]) == (0.7, 5, ["END"], 1)


async def test_wanted_json_is_asked_for_by_its_schema_and_gets_no_ellipsis(server: FakeOllama) -> None:
    schema = {"type": "object"}
    answers = OllamaAnswers(OllamaAddress(server.url, CHAT_MODEL), timeout_s=20)
    server.fault = "length"

    told = [
        await said(answers, msgspec.structs.replace(ASKED, json_format=each))
        for each in (JsonFormat(), JsonFormat(schema=schema))
    ]

    assert told == [server.json_reply] * 2
    assert [body["format"] for body in server.bodies("/api/chat")] == ["json", schema]
