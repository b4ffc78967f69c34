"""A chat model of an OpenAI-compatible server, by /v1/chat/completions."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from pydantic import SecretStr

from shared.answers import Conversation, Turn
from shared.answers.served import CUT_SHORT, answered
from shared.errors import Unavailable
from shared.model_server import BadAnswer, TooLong
from shared.openai_server import KEY_VARIABLE, OpenAiAddress, OpenAiServer
from shared.settings import ConfigurationError

_CUT: Final = frozenset({"length", "content_filter"})


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None  # what a model thinks comes under other names, and isn't read


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Part(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()


class OpenAiAnswers:
    """The answers of `openai+https://host:port/v1/model`.

    Its own model answers whatever model the caller wishes for; the reply shows `name`. With passages, a citation that
    names none of them is dropped. An answer that reaches the model's limit, or that the server's filter stops, ends
    with `…`.
    """

    def __init__(self, address: OpenAiAddress, key: SecretStr, history: int = 5, timeout_s: float = 120.0) -> None:
        """Take the model's address and its server's key; `timeout_s` is the longest wait for a next word."""
        self._address = address
        self._key = key
        self._history = history
        self._timeout_s = timeout_s
        self._takes_temperature = True

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._address.model

    @property
    def needs_passages(self) -> bool:
        """Return False: a language model can chat."""
        return False

    async def check(self, timeout_s: float) -> None:
        """Return when the server lists its models, or can't be asked now, or has no such list.

        Raises:
            ConfigurationError: it refuses the key.
        """
        server = OpenAiServer(self._address, self._key, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                await server.listed()
        except BadAnswer as error:
            if error.status in {401, 403}:
                raise ConfigurationError(
                    f"SLUICE_CHAT: {error}; is {KEY_VARIABLE} set to a key of this server?"
                ) from error
        except (Unavailable, TooLong, TimeoutError):
            return
        finally:
            await server.close()

    async def stream(self, conversation: Conversation) -> AsyncGenerator[str, None]:
        """Yield the answer piece by piece; closing the iterator closes the connection, and the server stops.

        Raises:
            Unavailable: the server is away, refuses, fails, stalls, or stops before the answer's end.
            Rejected: the question is longer than the model's window.
        """
        # Passages are to be quoted, not varied.
        settled = bool(conversation.passages)
        pieces = answered(conversation, self._history, lambda turns: self._pieces(turns, settled=settled))
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _pieces(self, turns: list[Turn], *, settled: bool) -> AsyncGenerator[str, None]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": turn.role, "content": turn.content} for turn in turns],
            "stream": True,
        }
        if settled and self._takes_temperature:
            try:
                async with aclosing(self._parts(body | {"temperature": 0})) as parts:
                    async for part in parts:
                        yield part
            except BadAnswer as error:
                # Models that think first refuse every temperature but their own.
                if error.status != 400 or "temperature" not in error.sentence:
                    raise
                self._takes_temperature = False
            else:
                return
        async with aclosing(self._parts(body)) as parts:
            async for part in parts:
                yield part

    async def _parts(self, body: dict[str, Any]) -> AsyncGenerator[str, None]:
        server = OpenAiServer(self._address, self._key, self._timeout_s)
        try:
            async with aclosing(server.events("/chat/completions", body, _Part)) as events:
                async for event in events:
                    for choice in event.choices[:1]:
                        if choice.delta.content:
                            yield choice.delta.content
                        if choice.finish_reason in _CUT:
                            yield CUT_SHORT
        finally:
            await server.close()
