"""The properties of the rag-chatbot seed that concern prompts and models, each on at least 100 generated cases."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.query_api.answer.answering import Answering, AnswerRequest
from services.query_api.http.admission import AnswerRate
from services.query_api.http.auth import ANYBODY
from shared.answers import Conversation, Passage, Turn
from shared.answers.prompt import messages
from shared.errors import Unavailable
from shared.settings import Settings
from tests.answering import models_of
from tests.fakes.answers import MemoryAnswers

CASES = 100
SENTENCES = st.text(st.characters(categories=("L", "Nd")), min_size=1, max_size=30)


def a_history(contents: list[str]) -> tuple[Turn, ...]:
    roles = ("user", "assistant") * len(contents)
    return tuple(Turn(role=role, content=text) for role, text in zip(roles, contents, strict=False))  # type: ignore[arg-type]


@pytest.mark.feature(213, 176)
@settings(max_examples=CASES)
@given(texts=st.lists(SENTENCES, min_size=1, max_size=20), question=SENTENCES)
def test_the_prompt_has_the_text_of_the_top_chunks(texts: list[str], question: str) -> None:
    """**Feature: rag-chatbot, Property 3: Top chunks included in prompt context**"""
    passages = tuple(
        Passage(number=number, text=text, title="T", score=0.5, metadata={})
        for number, text in enumerate(texts, start=1)
    )

    prompt = messages(Conversation(turns=(Turn(role="user", content=question),), passages=passages), history=5)[-1]

    for number, text in enumerate(texts, start=1):
        assert f"[{number}] T: {text}" in prompt.content
    assert prompt.content.endswith(f"Question: {question}")


@pytest.mark.feature(218)
@settings(max_examples=CASES)
@given(history=st.lists(SENTENCES, max_size=5), question=SENTENCES)
def test_the_prompt_has_every_message_of_the_history(history: list[str], question: str) -> None:
    """**Feature: rag-chatbot, Property 8: Conversation history included in prompt**"""
    sent = messages(
        Conversation(turns=(*a_history(history), Turn(role="user", content=question)), from_documents=True), history=5
    )

    assert [turn.content for turn in sent] == [*history, question]


@pytest.mark.feature(219, 175)
@settings(max_examples=CASES)
@given(history=st.lists(SENTENCES, max_size=30), limit=st.integers(0, 8), question=SENTENCES)
def test_a_long_history_keeps_its_latest_messages(history: list[str], limit: int, question: str) -> None:
    """**Feature: rag-chatbot, Property 9: Conversation history truncation**"""
    sent = messages(
        Conversation(turns=(*a_history(history), Turn(role="user", content=question)), from_documents=True),
        history=limit,
    )

    assert [turn.content for turn in sent] == [*(history[-limit:] if limit else []), question]


@pytest.mark.feature(227, 207)
@settings(max_examples=CASES, deadline=None)
@given(failures=st.integers(0, 5), message=SENTENCES)
async def test_a_model_is_asked_once_more_and_then_it_is_an_error(failures: int, message: str) -> None:
    """**Feature: rag-chatbot, Property 17: AI model retry on failure**"""
    model = MemoryAnswers()
    model.failures = failures
    answering = Answering(None, models_of(model), AnswerRate(0), Settings())  # type: ignore[arg-type]  # plain chat searches nothing
    request = AnswerRequest(caller=ANYBODY, turns=(Turn(role="user", content=message),))

    if failures < 2:
        assert (await answering.finish(await answering.prepare(request))).text == "Good evening."
    else:
        with pytest.raises(Unavailable):
            await answering.finish(await answering.prepare(request))

    assert model.asked == min(failures, 1) + 1
