"""A chat model of an OpenAI-compatible server, by /v1/chat/completions."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from pydantic import SecretStr

from shared.answers import MORE_SAMPLING, Called, Conversation, Event, Finished, JsonFormat, ToolCall, Turn, Usage
from shared.answers.prompt import USUAL, Prompting
from shared.answers.served import CUT_SHORT, answered
from shared.errors import Unavailable
from shared.model_server.http import BadAnswer, TooLong
from shared.model_server.openai import KEY_VARIABLE, OpenAiAddress, OpenAiServer
from shared.settings import ConfigurationError

_CUT: Final = frozenset({"length", "content_filter"})
_DISPENSABLE: Final = ("stream_options", "temperature", *MORE_SAMPLING)  # left out if a server refuses them


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    """A part of a tool call; the parts of one have its index."""

    index: int = 0
    id: str | None = None
    function: _Function = _Function()


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None  # a model's reasoning comes in other fields, which aren't read
    tool_calls: tuple[_Call, ...] | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Part(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None


class OpenAiAnswers:
    """The answers of `openai+https://host:port/v1/model`.

    With passages, a citation that names none of them is dropped. An answer that reaches the model's limit, or that the
    server's filter stops, ends with `…`, unless the caller set that limit. JSON stays as the model wrote it.
    """

    needs_passages = False

    def __init__(
        self, address: OpenAiAddress, key: SecretStr, how: Prompting = USUAL, timeout_s: float = 120.0
    ) -> None:
        """Take the model's address and its server's key; `timeout_s` is the longest wait for the next piece."""
        self._address = address
        self.name = address.model
        self._key = key
        self._how = how
        self._timeout_s = timeout_s
        self._refused: frozenset[str] = frozenset()  # optional fields that this server refuses

    async def context(self) -> int:
        """Return the setting's number of tokens; servers of this protocol don't say their models'."""
        return self._how.context

    async def check(self, timeout_s: float) -> None:
        """Return if the server lists its models, is away, or has no such list.

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

    def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Return the answer's events; closing the iterator closes the connection, and the server stops.

        Raises:
            Unavailable: the server is away, refuses, fails, stalls, or stops before the answer's end.
            Rejected: the question is longer than the model's window.
        """
        optional = _optional(conversation)
        return answered(conversation, lambda turns: self._events(turns, optional), self._how)

    async def _events(
        self, turns: list[Turn], optional: dict[str, Any]
    ) -> AsyncGenerator[str | Called | Finished, None]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [_message(turn) for turn in turns],
            "stream": True,
        }
        while True:
            taken = {name: value for name, value in optional.items() if name not in self._refused}
            try:
                async with aclosing(self._parts(body | taken)) as parts:
                    async for part in parts:
                        yield part
            except BadAnswer as error:
                # Reasoning models refuse any temperature but their own; older servers report no usage.
                refused = {name for name in _DISPENSABLE if name in taken and name in error.sentence}
                if error.status != 400 or not refused:
                    raise
                self._refused |= refused
            else:
                return

    async def _parts(self, body: dict[str, Any]) -> AsyncGenerator[str | Called | Finished, None]:
        server = OpenAiServer(self._address, self._key, self._timeout_s)
        calls: dict[int, ToolCall] = {}
        usage, cut = Usage(), False
        try:
            async with aclosing(server.events("/chat/completions", body, _Part)) as events:
                async for event in events:
                    for choice in event.choices[:1]:
                        if choice.delta.content:
                            yield choice.delta.content
                        for call in choice.delta.tool_calls or ():
                            calls[call.index] = _joined(calls.get(call.index), call)
                        cut = cut or choice.finish_reason in _CUT
                    if event.usage:
                        told = event.usage
                        usage = Usage(prompt_tokens=told.prompt_tokens, answer_tokens=told.completion_tokens)
        finally:
            await server.close()
        if calls:
            yield Called(tuple(calls.values()))
        if cut and not {"max_tokens", "response_format"} & body.keys():
            yield CUT_SHORT
        yield Finished(reason="tool_calls" if calls else "length" if cut else "stop", usage=usage)


def _optional(conversation: Conversation) -> dict[str, Any]:
    """Return the optional fields of a request, without those that the caller left open."""
    given = {
        "stream_options": {"include_usage": True},
        "temperature": 0 if conversation.passages else None,  # they should be quoted, not varied
        **conversation.sampling,
        "tools": list(conversation.tools) or None,
        "tool_choice": conversation.tool_choice if conversation.tools else None,
        "response_format": None if conversation.json_format is None else _response_format(conversation.json_format),
    }
    return {name: value for name, value in given.items() if value is not None}


def _response_format(wanted: JsonFormat) -> dict[str, Any]:
    if wanted.schema is None:
        return {"type": "json_object"}
    given = msgspec.structs.asdict(wanted)
    return {"type": "json_schema", "json_schema": {name: each for name, each in given.items() if each is not None}}


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.images:
        text = [{"type": "text", "text": turn.content}] if turn.content else []
        message["content"] = [*text, *({"type": "image_url", "image_url": {"url": each}} for each in turn.images)]
    if turn.tool_calls:
        message["tool_calls"] = [call.in_openai for call in turn.tool_calls]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    return message


def _joined(begun: ToolCall | None, part: _Call) -> ToolCall:
    """Return the call completed by this part."""
    return ToolCall(
        id=part.id or (begun.id if begun else f"call_{part.index}"),
        name=(begun.name if begun else "") + (part.function.name or ""),
        arguments=(begun.arguments if begun else "") + (part.function.arguments or ""),
    )
