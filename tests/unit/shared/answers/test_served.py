from collections.abc import AsyncGenerator

import pytest

from shared.answers import Called, Conversation, Finished, Passage, Prompted, Turn
from shared.answers.prompt import Prompting
from shared.answers.served import answered
from shared.errors import Rejected
from shared.model_server.http import TooLong

PASSAGES = tuple(Passage(number=n, text="words " * 200, title="T", score=0.5, metadata={}) for n in range(1, 9))
CONVERSATION = Conversation(turns=(Turn(role="user", content="When?"),), passages=PASSAGES, from_documents=True)


async def events_of(most: int) -> list[object]:
    """Return the events of an answer by a model that takes prompts of at most so many characters."""

    async def ask(turns: list[Turn]) -> AsyncGenerator[str | Called | Finished, None]:
        if sum(len(turn.content) for turn in turns) > most:
            raise TooLong("the prompt is too long")
        yield "At nine [1], or at ten [99]."
        yield Finished()

    return [event async for event in answered(CONVERSATION, ask, Prompting(history=5))]


async def test_passages_come_first_and_unknown_citations_go() -> None:
    first, *pieces, last = await events_of(10**6)

    assert first == Prompted(PASSAGES)
    assert "".join(map(str, pieces)) == "At nine [1], or at ten."
    assert isinstance(last, Finished)


async def test_a_prompt_that_is_too_long_is_sent_again_with_less() -> None:
    first, *_ = await events_of(6000)

    assert isinstance(first, Prompted)
    assert 0 < len(first.passages) < len(PASSAGES)


async def test_a_question_that_is_too_long_alone_is_rejected() -> None:
    with pytest.raises(Rejected, match="longer than the model accepts"):
        await events_of(10)
