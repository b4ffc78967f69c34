"""A chat model of an Ollama server, by /api/chat."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from shared.answers import Conversation
from shared.answers.citations import KnownCitations
from shared.answers.prompt import messages, shown
from shared.errors import Unavailable
from shared.ollama_server import OllamaAddress, connect, failures_named

_WINDOW: Final = 8192  # tokens: context, history, question and answer, as prompt.py measures them


class OllamaAnswers:
    """The answers of `ollama://host:port/model`.

    Its own model answers whatever model the caller wishes for; the reply shows `name`. With passages, a citation that
    names none of them is dropped.
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
        """
        known = {passage.number for passage in shown(conversation.passages)}
        async with aclosing(self._pieces(conversation)) as pieces:
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

    async def _pieces(self, conversation: Conversation) -> AsyncGenerator[str, None]:
        turns = [{"role": turn.role, "content": turn.content} for turn in messages(conversation, self._history)]
        options = {"num_ctx": _WINDOW} | ({"temperature": 0} if conversation.passages else {})
        async with connect(self._address.url, self._timeout_s) as client:
            with failures_named(self._address):
                answer = await client.chat(self.name, turns, stream=True, think=False, options=options)
            async with aclosing(answer) as parts:
                while True:
                    with failures_named(self._address):
                        async with asyncio.timeout(self._timeout_s):
                            part = await anext(parts, None)
                    if part is None:
                        raise Unavailable(f"Ollama at {self._address.url} stopped before the end of its answer")
                    if part.message.content:
                        yield part.message.content
                    if part.done:
                        return
