"""A chat model of an Ollama server, by /api/chat."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec
import ollama

from shared.answers import Called, Conversation, Event, Finished, ToolCall, Turn, Usage
from shared.answers.prompt import ANSWER, USUAL, Prompting, tokens
from shared.answers.served import CUT_SHORT, answered
from shared.errors import Rejected, Unavailable
from shared.model_server.http import TooLong
from shared.model_server.ollama import OllamaAddress, connect, failures_named

_LEAST_WINDOW: Final = 8192  # tokens; it only doubles, because the server loads the model anew for another one
_LOOK_S: Final = 2.0  # longest wait for what the server says of its model
_NAMES: Final = {"max_tokens": "num_predict"}  # of options that Ollama calls otherwise


class OllamaAnswers:
    """The answers of `ollama://host:port/model`.

    With passages, a citation that names none of them is dropped. An answer that reaches the model's limit ends with
    `…`, unless the caller set that limit. JSON stays as the model wrote it.
    """

    needs_passages = False

    def __init__(self, address: OllamaAddress, how: Prompting = USUAL, timeout_s: float = 120.0) -> None:
        """Take the model's address; `timeout_s` is the longest wait for the next piece, with the model's loading."""
        self._how = how
        self._own_context: int | None = None  # of the model, as its server says
        self._address = address
        self.name = address.model
        self._timeout_s = timeout_s

    async def context(self) -> int:
        """Return the setting's number of tokens, or the model's own if that is known and smaller."""
        if self._own_context is None:
            wait_s = min(_LOOK_S, self._timeout_s)
            try:
                with failures_named(self._address):
                    async with asyncio.timeout(wait_s), connect(self._address.url, wait_s) as client:
                        told = (await client.show(self.name)).modelinfo or {}
            except (Unavailable, TooLong):
                return self._how.context  # asked again the next time
            lengths = [size for name, size in told.items() if name.endswith(".context_length")]
            self._own_context = int(lengths[0]) if lengths else self._how.context
        return min(self._how.context, self._own_context)

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Yield the answer's events; closing the iterator closes the connection, and the server stops.

        Raises:
            Unavailable: the server is away, has no such model, fails, stalls, or stops before the answer's end.
            Rejected: the question is longer than the model's window.
        """
        # Passages should be quoted, not varied.
        settled: dict[str, Any] = {"temperature": 0} if conversation.passages else {}
        options = settled | {_NAMES.get(name, name): value for name, value in conversation.sampling.items()}
        context = await self.context()
        how = msgspec.structs.replace(self._how, context=context)
        events = answered(conversation, lambda turns: self._fitted(turns, options, conversation, context), how)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _fitted(
        self, turns: list[Turn], options: dict[str, Any], conversation: Conversation, context: int
    ) -> AsyncGenerator[str | Called | Finished, None]:
        """Yield the answer with the window that the turns need, or with the largest if that was too small."""
        needed = tokens(turns, conversation.tools) * 4 // 3 + max(ANSWER, options.get("num_predict", 0))
        window = _LEAST_WINDOW
        while window < min(needed, context):
            window *= 2
        for num_ctx in dict.fromkeys((min(window, context), context)):
            try:
                async with aclosing(self._events(turns, options | {"num_ctx": num_ctx}, conversation)) as events:
                    async for event in events:
                        yield event
            except TooLong:
                if num_ctx == context:
                    raise
            else:
                return

    async def _events(
        self, turns: list[Turn], options: dict[str, Any], conversation: Conversation
    ) -> AsyncGenerator[str | Called | Finished, None]:
        wanted = conversation.json_format
        async with connect(self._address.url, self._timeout_s) as client:
            answer = await client.chat_uncut(
                self.name,
                [_message(turn) for turn in turns],
                options,
                tools=conversation.tools,
                answer_format=None if wanted is None else wanted.schema or "json",
            )
            calls: list[ToolCall] = []
            async with aclosing(answer) as parts:
                while True:
                    with failures_named(self._address):
                        async with asyncio.timeout(self._timeout_s):
                            part = await anext(parts, None)
                    if part is None:
                        raise Unavailable(f"{self._address.server} ended its stream before the end of the answer")
                    if part.message.content:
                        yield part.message.content
                    for call in part.message.tool_calls or ():
                        arguments = json.dumps(call.function.arguments)
                        calls.append(ToolCall(id=f"call_{len(calls)}", name=call.function.name, arguments=arguments))
                    if not part.done:
                        continue
                    if calls:
                        yield Called(tuple(calls))
                    cut = part.done_reason == "length"
                    if cut and wanted is None and "num_predict" not in options:
                        yield CUT_SHORT
                    yield Finished(reason="tool_calls" if calls else "length" if cut else "stop", usage=_usage(part))
                    return


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.tool_calls:
        message["tool_calls"] = [call.in_ollama for call in turn.tool_calls]
    if turn.images:
        message["images"] = [_image(image) for image in turn.images]
    if turn.name:
        message["tool_name"] = turn.name
    return message


def _image(address: str) -> str:
    """Return the image's bytes as base64. Raises Rejected for an address elsewhere, which the server doesn't fetch."""
    head, comma, encoded = address.partition(";base64,")
    if not comma or not head.startswith("data:"):
        raise Rejected("this model takes images as data: addresses in base64, not as links", "image_not_read")
    return encoded


def _usage(part: ollama.ChatResponse) -> Usage:
    return Usage(
        prompt_tokens=part.prompt_eval_count,
        answer_tokens=part.eval_count,
        total_ns=part.total_duration,
        load_ns=part.load_duration,
        prompt_ns=part.prompt_eval_duration,
        answer_ns=part.eval_duration,
    )
