"""Port: an answer to a question, streamed. Extractive sentences or a language model."""

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved chunk as an answer cites it."""

    number: int  # the n of [n], from 1
    text: str
    title: str
    score: float  # 0..1
    metadata: dict[str, Any]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `turns` ends with the user's question; `passages` is empty without retrieval."""

    turns: tuple[Turn, ...]
    passages: tuple[Passage, ...] = ()
    system: str | None = None
    model: str | None = None  # the caller's wish; an adapter may refuse it

    @property
    def question(self) -> str:
        """Return the last user message."""
        return next((turn.content for turn in reversed(self.turns) if turn.role == "user"), "")


class Answers(Protocol):
    """Something that answers."""

    @property
    def name(self) -> str:
        """Return the model's name as replies show it, e.g. `extractive`."""
        ...

    @property
    def needs_passages(self) -> bool:
        """Return whether it can't answer without passages (so plain chat is refused: NO_MODEL)."""
        ...

    def stream(self, conversation: Conversation) -> AsyncIterator[str]:
        """Yield the answer piece by piece; closing the iterator cancels the work.

        Raises:
            Unavailable: the model is away, or its stream ended without a proper end.
            Rejected: the question is longer than the model takes.
        """
        ...
