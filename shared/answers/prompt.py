"""Builds the prompt of a language model: instructions, passages, the conversation, the question."""

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Any, Final

import msgspec

from shared.answers import Conversation, Passage, Turn
from shared.answers.escaping import quoted
from shared.answers.templates import Templates, packaged
from shared.errors import Rejected

CONTEXT_START: Final = "[CONTEXT START]"
CONTEXT_END: Final = "[CONTEXT END]"

CONTEXT: Final = 16_384  # tokens that a conversation and its answer may have, unless a setting says otherwise
ANSWER: Final = 1_024  # of them, kept for the answer
BYTES_OF_A_TOKEN: Final = 4  # of UTF-8, an estimate for any script
_IMAGE: Final = 1_000  # tokens, an estimate: models take 250 to 3,000
_TURN: Final = 4  # tokens of its role and marks

_PLACES: Final = 5  # other places of a text that a prompt names
_WISH: Final = 1_000
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_TEMPLATES: Final = packaged()


class Prompting(msgspec.Struct, frozen=True, kw_only=True):
    """How language models are asked, the same for all."""

    history: int | None = None  # most earlier messages beside passages; None: as many as fit
    templates: Templates = _TEMPLATES
    context: int = CONTEXT


USUAL: Final = Prompting()


def messages(
    conversation: Conversation,
    history: int | None = None,
    *,
    share: int = 1,
    context: int = CONTEXT,
    templates: Templates = _TEMPLATES,
    boundary: str | None = None,
) -> list[Turn]:
    """Return the turns to send: a system turn if there are instructions, earlier turns, the question.

    The question and what follows it, such as the results of tools, are sent whole; so is everything if no passages were
    searched. Otherwise the latest `history` turns, as far as `context` tokens have room for them, and passages within
    half of the context. Both get 1/`share` of their room.
    The passages stand in the question's turn, not the system's: a document has no more say than a user. The first and
    last line of their block is `boundary`, by default a new random one, which no document can know.
    """
    passages = shown(conversation.passages, share=share, context=context)

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
    if kind == "plain" and not conversation.from_documents:
        added = "\n\n".join(filter(None, (conversation.system, instructions)))
        return [*([Turn(role="system", content=added)] if added else []), *conversation.turns]
    system = [conversation.system or "", *(turn.content for turn in conversation.turns if turn.role == "system")]
    directions = "\n\n".join(filter(None, (*system, instructions)))
    turns = [turn for turn in conversation.turns if turn.role != "system"]
    asked = max((position for position, turn in enumerate(turns) if turn.role == "user"), default=len(turns))
    question = turns[asked] if asked < len(turns) else Turn(role="user", content="")
    if passages:
        text = templates.question(
            question.content,
            [_view(each) for each in passages],
            compare=conversation.compare,
            marks=(CONTEXT_START, CONTEXT_END),
            boundary=boundary or new_boundary(),
        )
        question = msgspec.structs.replace(question, content=text)
    first = [Turn(role="system", content=directions)] if directions else []
    last = [question, *turns[asked + 1 :]]
    room = context - ANSWER - tokens([*first, *last], conversation.tools)
    return [*first, *_latest(turns[:asked], history, room // share), *last]


def _latest(turns: Sequence[Turn], history: int | None, room: int) -> Sequence[Turn]:
    """Return the latest turns, at most `history` of them, that fit into `room` tokens."""
    most = len(turns) if history is None else history
    sizes = accumulate(tokens([turn]) for turn in reversed(turns[max(0, len(turns) - most) :]))
    kept = turns[len(turns) - len(list(takewhile(lambda size: size <= room, sizes))) :]
    while kept and kept[0].role == "tool":  # servers refuse a tool's result without its call
        kept = kept[1:]
    return kept


def tokens(turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Return an estimate of the number of tokens of the turns, and of the tools' descriptions."""
    told = [text_tokens(turn.content) + _TURN + _IMAGE * len(turn.images) for turn in turns]
    called = [text_tokens(call.name + call.arguments) for turn in turns for call in turn.tool_calls]
    return sum(told) + sum(called) + (text_tokens(msgspec.json.encode(tools).decode()) if tools else 0)


def text_tokens(text: str) -> int:
    """Return an estimate of the text's number of tokens."""
    return math.ceil(len(text.encode(errors="replace")) / BYTES_OF_A_TOKEN)


def check_length(conversation: Conversation, context: int) -> None:
    """Raise Rejected if what may not be shortened has more than `context` tokens, by an estimate."""
    least = msgspec.structs.replace(conversation, passages=())
    needed = tokens(messages(least, 0), conversation.tools)
    if needed > context:
        raise Rejected(
            f"the conversation has about {needed} tokens, and the model takes {context} (SLUICE_CHAT_CONTEXT, "
            "or less where the model itself has less): send less of it",
            "conversation_too_long",
        )


def new_boundary() -> str:
    """Return a line that marks the first and last line of one request's passages."""
    return f"boundary {secrets.token_hex(8)}"


def shown(passages: Sequence[Passage], *, share: int = 1, context: int = CONTEXT) -> Sequence[Passage]:
    """Return the passages that go into the prompt: the first ones, as many as half the context takes; at least one."""
    sizes = accumulate(text_tokens(passage.title + passage.shown + _origin(passage)) for passage in passages)
    return passages[: max(1, len(list(takewhile(lambda size: size <= context // 2 // share, sizes))))]


def _origin(passage: Passage) -> str:
    """Return where the passage is from, by whom, of which section and date, and where else it stands."""
    metadata = passage.metadata
    origin = metadata.get("url") or metadata.get("originalFilename") or metadata.get("path") or passage.title
    about = metadata.get("file") or {}
    author = about.get("author")
    by = f", by {author if isinstance(author, str) else '; '.join(author)}" if author else ""
    section = metadata.get("sectionTitle")
    under = f"; section {section}" if section and section != passage.title else ""
    dated = f"; of {day}" if (day := day_of(metadata)) else ""
    also = ", ".join(str(copy.get("path")) for copy in metadata.get("copies", [])[:_PLACES])
    return f"{origin}{by}{under}{dated}{also and f'; also in {also}'}"


def day_of(metadata: Mapping[str, Any]) -> str:
    """Return the day of the file's last change, else of its document's; empty if unknown."""
    about = metadata.get("file") or {}
    days = (about.get("modified"), about.get("created"), metadata.get("updatedAt"))  # a file may claim anything
    return next((each[:10] for each in days if isinstance(each, str) and _DAY.match(each)), "")


def _view(passage: Passage) -> dict[str, Any]:
    """Return the passage as templates see it; every text is `quoted`."""
    metadata = passage.metadata
    page, last = metadata.get("pageNumber"), metadata.get("pageEnd")
    return {
        "number": passage.number,
        "title": quoted(passage.title),
        "text": quoted(passage.shown),
        "origin": quoted(_origin(passage)),
        "pages": f"p.{page}-{last}" if page and last and last > page else f"p.{page}" if page else "",
        "source_type": quoted(str(metadata.get("sourceType") or metadata.get("documentType") or "")),
        "score": f"{passage.score:.4f}",
        "document_id": str(metadata.get("documentId") or passage.number),
    }


def _wish(text: str | None) -> str | None:
    """Return a user's instruction without our markers, cut to `_WISH` characters."""
    return quoted(text)[:_WISH] if text else None
