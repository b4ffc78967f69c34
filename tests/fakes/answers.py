"""The fake of `shared.answers.Answers`."""

from collections.abc import AsyncGenerator

from shared.answers import Conversation, Event, Finished, Prompted
from shared.answers.prompt import CONTEXT
from shared.errors import Unavailable


class MemoryAnswers:
    """A model that quotes its passages, or says good evening; it fails as often as `failures` says."""

    name, needs_passages = "memory", False

    def __init__(self) -> None:
        self.asked = self.failures = 0

    async def context(self) -> int:
        return CONTEXT

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise Unavailable("the model is away")
        yield Prompted(conversation.passages)
        for passage in conversation.passages:
            yield f"{passage.text} "
            yield f"[{passage.number}] "
        if not conversation.passages:
            yield "Good evening."
        yield Finished()
