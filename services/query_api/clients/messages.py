"""Messages as OpenAI's clients send them, turned into the turns of a conversation. Pure."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from services.query_api.http.problems import invalid
from shared.answers import Turn

_ROLES: Final[dict[str, Literal["system", "user", "assistant"]]] = {
    "system": "system",
    "developer": "system",  # OpenAI's newer word for it
    "user": "user",
    "assistant": "assistant",
}
_FROM_TOOLS: Final = frozenset({"tool", "function"})  # what a client's own tool found; no model here asked for it


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message; the content is a string or a list of parts, null where an assistant only called tools."""

    role: str
    content: Any = None


def turns_of(messages: Sequence[ClientMessage], field: str = "messages") -> list[Turn]:
    """Return the turns that have a text.

    Raises:
        Problem: 400, a message has an unknown role, or content that is no text.
    """
    turns = []
    for number, message in enumerate(messages):
        if message.role in _FROM_TOOLS:
            continue
        if message.role not in _ROLES:
            raise invalid(f"{field}[{number}].role", f"{message.role!r} is none of {', '.join(_ROLES)}, tool, function")
        if text := text_of(message.content, f"{field}[{number}].content"):
            turns.append(Turn(role=_ROLES[message.role], content=text))
    return turns


def text_of(content: Any, field: str) -> str:
    """Return the text of a string or of a list of parts; what isn't text (an image) is left out.

    Raises:
        Problem: 400, it is neither.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid(field, "must be a string or a list of parts")
    texts = []
    for number, part in enumerate(content):
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            texts.append(text)
        elif not isinstance(part, dict) or "text" in part or "type" not in part:
            raise invalid(f"{field}[{number}]", "must be a part with a type, such as {type: text, text: …}")
    return "\n".join(texts)
