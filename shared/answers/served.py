"""Answers by a language model on a server, independent of the server's protocol."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import msgspec

from shared.answers import Called, Conversation, Event, Finished, Prompted, Turn
from shared.answers.citations import KnownCitations, filtered
from shared.answers.prompt import Prompting, messages, new_boundary, shown, tokens
from shared.errors import Rejected
from shared.model_server.http import BadAnswer, TooLong

Ask = Callable[[list[Turn]], AsyncGenerator[str | Called | Finished, None]]

CUT_SHORT: Final = " …"  # ends an answer that the model's limit truncated
_REFUSALS: Final = frozenset({400, 422})  # of what was sent, such as tools to a model that calls none
_SHARES: Final = (1, 2, 4, 8, 16, 32)  # the prompt's limits are divided by these in turn, until it fits the model


async def answered(conversation: Conversation, ask: Ask, how: Prompting) -> AsyncGenerator[Event, None]:
    """Yield the passages of the prompt, then the events that `ask` gives for it.

    Citations of other passages are dropped; JSON has none, and stays as it is. A prompt that exceeds the model's window
    is sent again with fewer passages and earlier turns, if passages were searched; nothing else is ever left out.

    Raises:
        Rejected: what has to be sent is too long, or the server refuses it. And what `ask` raises.
    """
    said = sum(turn.role != "system" for turn in conversation.turns)
    sent: list[Turn] | None = None
    boundary = new_boundary()
    for share in _SHARES:
        turns = messages(conversation, **msgspec.structs.asdict(how), share=share, boundary=boundary)
        if turns == sent:
            continue
        sent = turns
        passages = tuple(shown(conversation.passages, share=share, context=how.context))
        accepted = False
        try:
            asked: AsyncGenerator[str | Called | Finished, None] = ask(turns)
            if passages and not conversation.json_format:
                asked = filtered(asked, KnownCitations([passage.number for passage in passages]))
            async with aclosing(asked) as events:
                async for event in events:
                    if not accepted:
                        accepted = True
                        yield Prompted(passages, said - sum(turn.role != "system" for turn in turns))
                    yield event
        except TooLong as error:
            refusal = error
        except BadAnswer as error:
            if error.status in _REFUSALS:
                raise Rejected(error.sentence, "model_refuses") from error
            raise
        else:
            return
    about = tokens(sent or (), conversation.tools)
    raise Rejected(
        f"the conversation, about {about} tokens, is longer than the model accepts: {refusal}", "conversation_too_long"
    )
