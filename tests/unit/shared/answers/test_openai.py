"""The answers of OpenAI-compatible servers, against one that fails in every way we know of."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from pydantic import SecretStr

from shared.answers import Conversation, JsonFormat, Passage, Turn
from shared.answers.open import open_models
from shared.answers.openai import OpenAiAnswers
from shared.errors import Rejected, Unavailable
from shared.model_server.openai import OpenAiAddress
from shared.settings import ConfigurationError
from tests import answering
from tests.servers.fake_openai import CHAT_MODEL, FakeOpenAi, Fault, fake_openai

KEY = SecretStr("sk-a-key")
PASSAGE = Passage(number=1, text="It is so.", title="Book", score=0.9, metadata={})
ASKED = Conversation(turns=(Turn(role="user", content="Is it so?"),), passages=(PASSAGE,))


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAi]:
    async with fake_openai() as running:
        running.key = KEY.get_secret_value()
        yield running


def of(server: FakeOpenAi, timeout_s: float = 20) -> OpenAiAnswers:
    return OpenAiAnswers(OpenAiAddress(server.base, CHAT_MODEL), KEY, timeout_s=timeout_s)


async def said(answers: OpenAiAnswers, conversation: Conversation = ASKED) -> str:
    return await answering.said(answers, conversation)


async def test_the_answer_comes_through_and_the_request_is_what_we_mean(server: FakeOpenAi) -> None:
    assert await said(of(server)) == "According to [1]: it is so."

    [body] = server.bodies("/v1/chat/completions")
    assert (body["model"], body["stream"], body["temperature"]) == (CHAT_MODEL, True, 0)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert server.headers["authorization"] == "Bearer sk-a-key"


async def test_plain_chat_passes_untouched_whatever_its_characters(server: FakeOpenAi) -> None:
    server.reply = "x = [7], see [9].\u2028New line\u2028\u0085and é, 語, 🚀."

    assert await said(of(server), Conversation(turns=ASKED.turns)) == server.reply
    assert "temperature" not in server.bodies("/v1/chat/completions")[0]


async def test_a_model_that_takes_no_temperature_is_asked_without_and_remembered(server: FakeOpenAi) -> None:
    server.takes_temperature = False
    answers = of(server)

    assert await said(answers) == await said(answers) == "According to [1]: it is so."

    assert ["temperature" in body for body in server.bodies("/v1/chat/completions")] == [True, False, False]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("401", "answered 401: fault 401"),
        ("404", "answered 404: fault 404"),
        ("429", "answered 429: fault 429"),
        ("500", "answered 500: fault 500"),
        ("html", "ended its stream before the end"),
        ("list", "ended its stream before the end"),
        ("redirect", "answered 307"),
        ("half", "can't be reached"),
        ("error", "answered: the engine died"),
        ("undone", "ended its stream before the end"),
    ],
)
async def test_a_fault_of_the_server_is_unavailable(server: FakeOpenAi, fault: Fault, sentence: str) -> None:
    server.fault = fault

    with pytest.raises(Unavailable, match=sentence):
        await said(of(server))


async def test_what_the_server_refuses_is_rejected(server: FakeOpenAi) -> None:
    server.fault = "400"

    with pytest.raises(Rejected, match="answered 400: fault 400"):
        await said(of(server))


@pytest.mark.parametrize("fault", ["hang", "stall"])
async def test_a_server_that_falls_silent_is_unavailable_and_left(server: FakeOpenAi, fault: Fault) -> None:
    server.fault = fault

    while not server.left.is_set():  # a loaded machine may take longer to send the question: nobody leaves then
        with pytest.raises(Unavailable, match="gave no answer in time"):
            await said(of(server, timeout_s=0.2))


async def test_closing_the_iterator_leaves_the_server(server: FakeOpenAi) -> None:
    server.fault = "stall"
    pieces = of(server).stream(ASKED)
    await anext(pieces)

    await pieces.aclose()

    await server.left.wait()


async def test_an_answer_that_reached_its_limit_ends_with_an_ellipsis(server: FakeOpenAi) -> None:
    server.fault = "length"

    assert await said(of(server)) == "According to [1]: it is so. …"


async def test_wanted_json_is_asked_for_by_its_schema_and_gets_no_ellipsis(server: FakeOpenAi) -> None:
    schema = {"type": "object"}
    wanted = [JsonFormat(), JsonFormat(schema=schema, name="days", strict=True)]
    server.fault = "length"

    told = [await said(of(server), msgspec.structs.replace(ASKED, json_format=each)) for each in wanted]

    assert told == [server.json_reply] * 2
    assert [body["response_format"] for body in server.bodies("/v1/chat/completions")] == [
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "days", "schema": schema, "strict": True}},
    ]


async def test_a_conversation_longer_than_the_window_loses_passages_and_then_is_rejected(server: FakeOpenAi) -> None:
    passages = tuple(
        Passage(number=n, text="It is so. " * 100, title="Book", score=0.9, metadata={}) for n in range(1, 9)
    )
    server.context, server.reply = 1200, "So it is [1], and so [8]."

    answer = await said(of(server), Conversation(turns=ASKED.turns, passages=passages))

    assert answer == "So it is [1], and so."  # the eighth wasn't shown
    server.context = 10
    with pytest.raises(Rejected, match="longer than the model accepts") as caught:
        await said(of(server), Conversation(turns=ASKED.turns, passages=passages))
    assert caught.value.code == "conversation_too_long"


async def test_a_refused_key_stops_the_start_and_a_server_that_is_away_does_not() -> None:
    async with fake_openai() as server:
        server.key = "another"
        setting = f"openai+{server.base}/{CHAT_MODEL}"

        with pytest.raises(ConfigurationError, match=r"SLUICE_CHAT: .* answered 401: .*_API_KEY") as caught:
            await open_models(setting, openai_api_key=KEY)
        assert KEY.get_secret_value() not in str(caught.value)

        server.lists, server.key = False, ""
        assert (await open_models(setting)).default.name == CHAT_MODEL
    assert (await open_models(setting)).default.name == CHAT_MODEL


async def test_pictures_and_further_options_arrive(server: FakeOpenAi) -> None:
    picture = "data:image/png;base64,iVBORw0KGgo="
    asked = Turn(role="user", content="What is it?", images=(picture,))

    await said(of(server), Conversation(turns=(asked,), sampling={"presence_penalty": 0.5, "top_k": 7}))

    [body] = server.bodies("/v1/chat/completions")
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    assert (body["presence_penalty"], body["top_k"]) == (0.5, 7)
