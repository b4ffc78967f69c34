"""A chat model of an Ollama server, by /api/chat."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import ollama

from shared.answers import Called, Conversation, Event, Finished, Sampling, ToolCall, Turn, Usage
from shared.answers.served import CUT_SHORT, answered
from shared.answers.templates import Templates, packaged
from shared.errors import Unavailable
from shared.model_server.ollama import OllamaAddress, connect, failures_named

_WINDOW: Final = 8192  # tokens: instructions, passages, history, question and answer, within prompt.py's limits


class OllamaAnswers:
    """The answers of `ollama://host:port/model`.

    With passages, a citation that names none of them is dropped. An answer that reaches the model's limit ends with
    `…`, unless the caller set that limit. JSON stays as the model wrote it.
    """

    def __init__(
        self, address: OllamaAddress, history: int = 5, timeout_s: float = 120.0, templates: Templates | None = None
    ) -> None:
        """Take the model's address; `timeout_s` is the longest wait for the next piece, with the model's loading."""
        self._address = address
        self._history = history
        self._templates = templates or packaged()
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._address.model

    @property
    def needs_passages(self) -> bool:
        """Return False: a language model can chat."""
        return False

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Yield the answer's events; closing the iterator closes the connection, and the server stops.

        Raises:
            Unavailable: the server is away, has no such model, fails, stalls, or stops before the answer's end.
            Rejected: the question is longer than the model's window.
        """
        # Passages should be quoted, not varied.
        settled: dict[str, Any] = {"num_ctx": _WINDOW} | ({"temperature": 0} if conversation.passages else {})
        options = settled | _options(conversation.sampling)
        events = answered(
            conversation, self._history, lambda turns: self._events(turns, options, conversation), self._templates
        )
        async with aclosing(events):
            async for event in events:
                yield event

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


def _options(sampling: Sampling) -> dict[str, Any]:
    """Return the sampling options under Ollama's names, without those that the caller left open."""
    given = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "num_predict": sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
    }
    return {name: value for name, value in given.items() if value is not None}


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.tool_calls:
        message["tool_calls"] = [
            {"function": {"name": call.name, "arguments": json.loads(call.arguments)}} for call in turn.tool_calls
        ]
    if turn.name:
        message["tool_name"] = turn.name
    return message


def _usage(part: ollama.ChatResponse) -> Usage:
    return Usage(
        prompt_tokens=part.prompt_eval_count,
        answer_tokens=part.eval_count,
        total_ns=part.total_duration,
        load_ns=part.load_duration,
        prompt_ns=part.prompt_eval_duration,
        answer_ns=part.eval_duration,
    )
