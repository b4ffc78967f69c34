"""What everything that answers promises, on every adapter."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import pytest
from pydantic import SecretStr

from shared.answers import Answers, Conversation, Finished, JsonFormat, Passage, Prompted, Turn
from shared.answers.extractive import Extractive
from shared.answers.ollama import OllamaAnswers
from shared.answers.openai import OpenAiAnswers
from shared.model_server.ollama import OllamaAddress
from shared.model_server.openai import OpenAiAddress
from tests.answering import cited, pieces, said
from tests.fakes.answers import MemoryAnswers
from tests.servers import fake_ollama, fake_openai
from tests.servers.ollama import CHAT_MODEL, OllamaServer

KEY = SecretStr("sk-a-key")


def a_passage(number: int, text: str, title: str = "Handbook", score: float = 0.8) -> Passage:
    return Passage(number=number, text=text, title=title, score=score, metadata={})


def a_conversation(question: str, *passages: Passage) -> Conversation:
    return Conversation(turns=(Turn(role="user", content=question),), passages=passages)


HANDBOOK = (
    a_passage(1, "Goods may be returned within 30 days. The parcel must be closed."),
    a_passage(2, "The shop opens at nine. It closes at six."),
)


OPEN = {
    "type": "object",
    "properties": {"open": {"type": "boolean"}},
    "required": ["open"],
    "additionalProperties": False,
}
JSON = '{"open": true, "days": [9], "then": "[7]"}'
REPLY = "Within 30 days [1], if the parcel [9] is closed [1, 7]. Opens at nine [Source 2]. See [12]."


# Left streams get a server of their own: Ollama keeps the only place of one that left at the wrong moment for ever
# (https://github.com/ollama/ollama/issues/17131), and whoever asks next waits.
ALONE = (
    "extractive",
    "memory",
    "fake ollama",
    pytest.param("ollama alone", marks=pytest.mark.server),
    "fake openai",
    pytest.param("openai alone", marks=pytest.mark.server),
)
MODELS = (
    "fake ollama",
    pytest.param("ollama", marks=pytest.mark.server),
    "fake openai",
    pytest.param("openai", marks=pytest.mark.server),
)


@pytest.fixture(params=["extractive", "memory", *MODELS])
async def answers(request: pytest.FixtureRequest) -> AsyncIterator[Answers]:
    match request.param:
        case "extractive":
            yield Extractive()
        case "memory":
            yield MemoryAnswers()
        case "fake ollama":
            async with fake_ollama.fake_ollama() as server:
                server.reply, server.json_reply = REPLY, JSON
                yield OllamaAnswers(OllamaAddress(server.url, fake_ollama.CHAT_MODEL))
        case "ollama" | "ollama alone":
            yield OllamaAnswers(OllamaAddress(_ollama(request), CHAT_MODEL))
        case "fake openai":
            async with fake_openai.fake_openai() as paid:
                paid.reply, paid.json_reply, paid.key = REPLY, JSON, KEY.get_secret_value()
                yield OpenAiAnswers(OpenAiAddress(paid.base, fake_openai.CHAT_MODEL), KEY)
        case _:  # Ollama speaks OpenAI's too
            yield OpenAiAnswers(OpenAiAddress(f"{_ollama(request)}/v1", CHAT_MODEL), KEY)


def _ollama(request: pytest.FixtureRequest) -> str:
    if request.param.endswith(" alone"):
        server: OllamaServer = request.getfixturevalue("ollama_server")
        return server.url
    url: str = request.getfixturevalue("ollama_url")
    return url


async def test_an_answer_cites_only_passages_that_were_given(answers: Answers) -> None:
    answer = await said(answers, a_conversation("When may goods be returned, and when does the shop open?", *HANDBOOK))

    numbers = cited(answer, range(10_000))
    assert numbers
    assert set(numbers) <= {1, 2}


async def test_an_answer_holds_what_the_passages_say(answers: Answers) -> None:
    answer = await said(answers, a_conversation("Within how many days may goods be returned?", *HANDBOOK))

    assert "30 days" in answer
    assert 1 in cited(answer, {1, 2})


async def test_an_answer_comes_in_pieces_none_of_them_empty(answers: Answers) -> None:
    conversation = a_conversation("When may goods be returned, and when does the shop open?", *HANDBOOK)

    told = await pieces(answers, conversation)

    assert len(told) > 1
    assert all(told)


async def test_the_passages_come_first_and_the_end_last(answers: Answers) -> None:
    conversation = a_conversation("When may goods be returned, and when does the shop open?", *HANDBOOK)

    first, *between, last = [event async for event in answers.stream(conversation)]

    assert isinstance(first, Prompted)
    assert [passage.number for passage in first.passages] == [1, 2]
    assert {passage.text for passage in first.passages} == {passage.text for passage in HANDBOOK}
    assert isinstance(last, Finished)
    assert all(isinstance(event, str) for event in between)


async def test_the_same_question_gets_the_same_answer(answers: Answers) -> None:
    conversation = a_conversation("When does the shop open?", *HANDBOOK)

    assert await said(answers, conversation) == await said(answers, conversation)


@pytest.mark.parametrize("answers", ALONE, indirect=True)
async def test_an_answer_can_be_left_after_its_first_piece(answers: Answers) -> None:
    pieces = answers.stream(a_conversation("When may goods be returned?", *HANDBOOK))
    async with aclosing(pieces):  # type: ignore[type-var]  # every adapter is a generator
        first = await anext(pieces)

    assert first
    assert [piece async for piece in pieces] == []


async def test_it_has_a_name(answers: Answers) -> None:
    assert answers.name
    assert answers.needs_passages == (answers.name == "extractive")


@pytest.mark.parametrize("answers", MODELS, indirect=True)
@pytest.mark.parametrize("schema", [OPEN, None])
async def test_json_is_valid_and_nothing_in_it_is_taken_for_a_citation(
    answers: Answers, schema: dict[str, object] | None
) -> None:
    conversation = a_conversation("Is the shop open at ten? Answer with JSON.", *HANDBOOK)
    wanted = msgspec.structs.replace(conversation, json_format=JsonFormat(schema=schema))

    answer = await said(answers, wanted)

    if schema is not None:
        assert isinstance(json.loads(answer)["open"], bool)
    if answers.name in (fake_ollama.CHAT_MODEL, fake_openai.CHAT_MODEL):
        assert answer == JSON
