"""Builds the prompt of a language model: instructions, passages, the last turns of the conversation, the question."""

import secrets
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any, Final

from shared.answers import Conversation, Passage, Turn
from shared.answers.escaping import quoted
from shared.answers.templates import Templates, packaged

CONTEXT_START: Final = "[CONTEXT START]"
CONTEXT_END: Final = "[CONTEXT END]"

# Bytes of UTF-8, about 4,000 tokens in any script. A model with a smaller window gets a share of them.
CONTEXT_BYTES: Final = 16_000
HISTORY_BYTES: Final = 6_000

_WISH: Final = 1_000
_TEMPLATES: Final = packaged()


def messages(
    conversation: Conversation,
    history: int,
    *,
    share: int = 1,
    templates: Templates = _TEMPLATES,
    boundary: str | None = None,
) -> list[Turn]:
    """Return the turns to send: a system turn if there are instructions, the last `history` turns, the question.

    What follows the question, such as the results of tools, is sent whole. Passages and earlier turns get 1/`share` of
    the room that there is for them.
    The passages stand in the question's turn, not the system's: a document has no more say than a user. The first and
    last line of their block is `boundary`, by default a new random one, which no document can know.
    """
    turns = [turn for turn in conversation.turns if turn.role != "system"]
    asked = max((position for position, turn in enumerate(turns) if turn.role == "user"), default=len(turns))
    earlier = turns[:asked][-history:] if history else []
    kept = _fitting([turn.content for turn in reversed(earlier)], HISTORY_BYTES // share)
    earlier = earlier[len(earlier) - kept :]
    while earlier and earlier[0].role == "tool":  # servers refuse a tool's result without its call
        earlier = earlier[1:]
    passages = shown(conversation.passages, share=share)

    wishes = conversation.preferences
    kind = "documents" if passages else "general" if conversation.general else "plain"
    instructions = templates.system(
        kind=kind,
        compare=conversation.compare,
        as_json=conversation.json_format is not None,
        persona=_wish(wishes.persona),
        style=_wish(wishes.style),
        language=_wish(wishes.language),
        instructions=_wish(wishes.instructions),
    )
    system = [conversation.system or "", *(turn.content for turn in conversation.turns if turn.role == "system")]
    directions = "\n\n".join(filter(None, (*system, instructions)))
    question = conversation.question
    if passages:
        question = templates.question(
            question,
            [_view(each) for each in passages],
            compare=conversation.compare,
            marks=(CONTEXT_START, CONTEXT_END),
            boundary=boundary or new_boundary(),
        )
    return [
        *([Turn(role="system", content=directions)] if directions else []),
        *earlier,
        Turn(role="user", content=question),
        *turns[asked + 1 :],
    ]


def new_boundary() -> str:
    """Return a line that marks the first and last line of one request's passages."""
    return f"boundary {secrets.token_hex(8)}"


def shown(passages: Sequence[Passage], *, share: int = 1) -> Sequence[Passage]:
    """Return the passages that go into the prompt: the first ones, as many as fit, and at least one."""
    sizes = [passage.title + passage.shown for passage in passages]
    return passages[: max(1, _fitting(sizes, CONTEXT_BYTES // share))]


def _view(passage: Passage) -> dict[str, Any]:
    """Return the passage as templates see it; every text is `quoted`."""
    metadata = passage.metadata
    page, last = metadata.get("pageNumber"), metadata.get("pageEnd")
    origin = metadata.get("url") or metadata.get("originalFilename") or metadata.get("path") or passage.title
    return {
        "number": passage.number,
        "title": quoted(passage.title),
        "text": quoted(passage.shown),
        "origin": quoted(str(origin)),
        "pages": f"p.{page}-{last}" if page and last and last > page else f"p.{page}" if page else "",
        "source_type": quoted(str(metadata.get("sourceType") or metadata.get("documentType") or "")),
        "score": f"{passage.score:.4f}",
        "document_id": str(metadata.get("documentId") or passage.number),
    }


def _wish(text: str | None) -> str | None:
    """Return a user's instruction without our markers, cut to `_WISH` characters."""
    return quoted(text)[:_WISH] if text else None


def _fitting(texts: Sequence[str], limit: int) -> int:
    sizes = accumulate(len(text.encode(errors="replace")) for text in texts)
    return len(list(takewhile(lambda size: size <= limit, sizes)))
