"""A language model behind HTTP: what is the same whatever the server speaks."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from shared.answers import Called, Conversation, Event, Finished, Prompted, Turn
from shared.answers.citations import KnownCitations
from shared.answers.prompt import messages, shown
from shared.answers.templates import Templates
from shared.errors import Rejected
from shared.model_server.http import TooLong

Ask = Callable[[list[Turn]], AsyncGenerator[str | Called | Finished, None]]

CUT_SHORT: Final = " …"  # behind an answer that reached the model's limit: nobody takes it for a whole one
_SHARES: Final = (1, 2, 4, 8)  # of the prompt's limits, until the model takes it


async def answered(
    conversation: Conversation, history: int, ask: Ask, templates: Templates
) -> AsyncGenerator[Event, None]:
    """Yield what `ask` gives for the conversation's prompt, after the passages that the prompt holds.

    Citations of other passages are dropped. A prompt that is longer than the model's window gets fewer passages and
    earlier turns, and never a question in part.

    Raises:
        Rejected: even the question alone is too long. And what `ask` raises.
    """
    sent: list[Turn] | None = None
    for share in _SHARES:
        turns = messages(conversation, history, share=share, templates=templates)
        if turns == sent:
            continue
        sent = turns
        passages = tuple(shown(conversation.passages, share=share))
        accepted = False
        try:
            async with aclosing(_citing({passage.number for passage in passages}, ask(turns))) as events:
                async for event in events:
                    if not accepted:
                        accepted = True
                        yield Prompted(passages)
                    yield event
        except TooLong as error:
            refusal = error
        else:
            return
    raise Rejected(f"the conversation is longer than the model takes: {refusal}", "conversation_too_long")


async def _citing(
    known: set[int], events: AsyncGenerator[str | Called | Finished, None]
) -> AsyncGenerator[str | Called | Finished, None]:
    """Yield the events; where there are passages, without citations of numbers that are not known."""
    citations = KnownCitations(known)
    async with aclosing(events):
        async for event in events:
            if not known:
                yield event
            elif isinstance(event, str):
                if passed := citations.feed(event):
                    yield passed
            else:
                if rest := citations.rest():
                    yield rest
                yield event
