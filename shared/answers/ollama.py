"""A chat model of an Ollama server, by /api/chat."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from shared.answers import Conversation, Turn
from shared.answers.served import CUT_SHORT, answered
from shared.errors import Unavailable
from shared.ollama_server import OllamaAddress, connect, failures_named

_WINDOW: Final = 8192  # tokens: context, history, question and answer, as prompt.py measures them


class OllamaAnswers:
    """The answers of `ollama://host:port/model`.

    Its own model answers whatever model the caller wishes for; the reply shows `name`. With passages, a citation that
    names none of them is dropped. An answer that reaches the model's limit ends with `…`.
    """

    def __init__(self, address: OllamaAddress, history: int = 5, timeout_s: float = 120.0) -> None:
        """Take the model's address; `timeout_s` is the longest wait for a next word, loading the model included."""
        self._address = address
        self._history = history
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._address.model

    @property
    def needs_passages(self) -> bool:
        """Return False: a language model can chat."""
        return False

    async def stream(self, conversation: Conversation) -> AsyncGenerator[str, None]:
        """Yield the answer piece by piece; closing the iterator closes the connection, and the server stops.

        Raises:
            Unavailable: the server is away, has no such model, fails, stalls, or stops before the answer's end.
            Rejected: the question is longer than the model's window.
        """
        # Passages are to be quoted, not varied.
        options: dict[str, Any] = {"num_ctx": _WINDOW} | ({"temperature": 0} if conversation.passages else {})
        pieces = answered(conversation, self._history, lambda turns: self._pieces(turns, options))
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _pieces(self, turns: list[Turn], options: dict[str, Any]) -> AsyncGenerator[str, None]:
        sent = [{"role": turn.role, "content": turn.content} for turn in turns]
        async with connect(self._address.url, self._timeout_s) as client:
            answer = await client.chat_uncut(self.name, sent, options)
            async with aclosing(answer) as parts:
                while True:
                    with failures_named(self._address):
                        async with asyncio.timeout(self._timeout_s):
                            part = await anext(parts, None)
                    if part is None:
                        raise Unavailable(f"{self._address.server} stopped before the end of its answer")
                    if part.message.content:
                        yield part.message.content
                    if part.done:
                        if part.done_reason == "length":
                            yield CUT_SHORT
                        return
