"""What tests of answers have in common."""

from collections.abc import Collection

from shared.answers import Answers, Conversation
from shared.answers.citations import marks
from shared.answers.model_pool import ChatModel, ChatModels


async def pieces(answers: Answers, conversation: Conversation) -> list[str]:
    """Return the pieces of the answer's text."""
    return [event async for event in answers.stream(conversation) if isinstance(event, str)]


async def said(answers: Answers, conversation: Conversation) -> str:
    """Return the answer's text."""
    return "".join(await pieces(answers, conversation))


def models_of(*answers: Answers) -> ChatModels:
    """Return models under their own names, the first one the default."""
    return ChatModels(
        [
            ChatModel(name=each.name, server="extractive" if each.needs_passages else "ollama", answers=each)
            for each in answers
        ]
    )


def cited(answer: str, known: Collection[int]) -> tuple[int, ...]:
    """Return the numbers that the answer cites, each once, in order of first mention; only those in `known`."""
    numbers = (number for _, _, each in marks(answer) for number in each)
    return tuple(dict.fromkeys(number for number in numbers if number in known))
