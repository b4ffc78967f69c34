"""Reads a conversation as clients send it into turns. Unknown fields are ignored."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from services.query_api.http.problems import invalid
from shared.answers import Preferences, Turn

Content = str | list[dict[str, Any]]  # text, or parts as OpenAI's clients send them


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Content | None = None


class Wishes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The user's wishes for the answer's style; `aiStyle` and `customTwist` are names of the Sessions contract."""

    persona: str | None = None
    style: str | None = None
    language: str | None = None
    instructions: str | None = None
    ai_style: str | None = None
    custom_twist: str | None = None

    @property
    def preferences(self) -> Preferences:
        """Return the wishes in the form that the prompt takes."""
        return Preferences(
            persona=self.persona,
            style="; ".join(filter(None, (self.style, self.ai_style, self.custom_twist))) or None,
            language=self.language,
            instructions=self.instructions,
        )


def turns_of(messages: Sequence[ChatMessage] | None, field: str) -> list[Turn]:
    """Return the messages as turns. Raises a 400 for a part that is not text."""
    return [
        Turn(role=message.role, content=text_of(message.content, f"{field}[{position}].content"))
        for position, message in enumerate(messages or ())
    ]


def text_of(content: Content | None, field: str) -> str:
    """Return the text of the content, its parts joined by line breaks.

    Raises:
        Problem: 400, a part is not text, for example an image.
    """
    if not isinstance(content, list):
        return content or ""
    texts = []
    for position, part in enumerate(content):
        text = part.get("text")
        if part.get("type", "text") not in ("text", "input_text") or not isinstance(text, str):
            raise invalid(f"{field}[{position}]", f"has the type {part.get('type')!r}; only text can be read")
        texts.append(text)
    return "\n".join(texts)
