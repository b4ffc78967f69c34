"""A language model behind HTTP: what is the same whatever the server speaks."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from shared.answers import Conversation, Turn
from shared.answers.citations import KnownCitations
from shared.answers.prompt import messages, shown
from shared.errors import Rejected
from shared.model_server import TooLong

Ask = Callable[[list[Turn]], AsyncGenerator[str, None]]

CUT_SHORT: Final = " …"  # behind an answer that reached the model's limit: nobody takes it for a whole one
_SHARES: Final = (1, 2, 4, 8)  # of the prompt's limits, until the model takes it


async def answered(conversation: Conversation, history: int, ask: Ask) -> AsyncGenerator[str, None]:
    """Yield what `ask` gives for the conversation's prompt; citations of passages that it doesn't hold are dropped.

    A prompt that is longer than the model's window gets fewer passages and earlier turns, and never a question in
    part.

    Raises:
        Rejected: even the question alone is too long. And what `ask` raises.
    """
    sent: list[Turn] | None = None
    for share in _SHARES:
        turns = messages(conversation, history, share=share)
        if turns == sent:
            continue
        sent = turns
        pieces = ask(turns)
        known = {passage.number for passage in shown(conversation.passages, share=share)}
        try:
            async with aclosing(_citing(known, pieces)) as citing:
                async for piece in citing:
                    yield piece
        except TooLong as error:
            refusal = error
        else:
            return
    raise Rejected(f"the conversation is longer than the model takes: {refusal}", "conversation_too_long")


async def _citing(known: set[int], pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(pieces):
        if not known:
            async for piece in pieces:
                yield piece
            return
        citations = KnownCitations(known)
        async for piece in pieces:
            if passed := citations.feed(piece):
                yield passed
        if rest := citations.rest():
            yield rest
