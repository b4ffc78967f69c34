"""Passes questions that came by another protocol to the answering service."""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import structlog

from services.query_api.answer.answering import Answer, Answering, AnswerRequest, Prepared, Retrieval
from services.query_api.clients.models import Choice
from services.query_api.http.auth import Caller
from services.query_api.http.problems import Problem, invalid, of_pipeline
from services.query_api.http.request import parse_json
from services.query_api.search.search import question_of
from shared.answers import Conversation, JsonFormat, Role, Sampling, ToolCall, Turn
from shared.errors import PipelineError

KEEP_ALIVE_S: Final = 15.0
_HOUSEKEEPING: Final = "### Task:"  # how Open WebUI's requests for titles, tags and follow-ups begin
_BYTES_OF_A_TOKEN: Final = 4  # estimate for any script, the same as in prompt.py

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of an answer: the model's own figures, or else tokens estimated from bytes, and 0 ns."""

    prompt_tokens: int
    answer_tokens: int
    total_ns: int
    load_ns: int
    prompt_ns: int
    answer_ns: int


class Asking:
    """Asks the answering service for clients of other protocols."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering

    async def prepare(
        self,
        caller: Caller,
        turns: Sequence[Turn],
        choice: Choice,
        *,
        retrieval: Retrieval,
        sampling: Sampling,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: str | dict[str, object] | None = None,
        json_format: JsonFormat | None = None,
        field: str = "messages",
    ) -> Prepared:
        """Return the request with its passages, ready to be streamed.

        Raises:
            Problem: 400, no message has the role user, or a model that only quotes has to call a tool; 429, 503 as
                `Answering.prepare`. Unavailable: the store is away.
        """
        asked = [turn for turn in turns if turn.role == "user"]
        if not asked:
            raise invalid(field, "must have a message with the role user")
        question = question_of(asked[-1].content, field)
        if tools and choice.only_quotes and tool_choice not in (None, "auto", "none"):
            raise invalid("tool_choice", f"{choice.model} only quotes documents; calling tools needs a language model")
        # The client asks for itself: documents don't help, and quotations are no answer.
        chore = question.lstrip().startswith(_HOUSEKEEPING)
        if chore and choice.only_quotes:
            models = self.answering.models.chosen(choice.model)
            return Prepared(conversation=Conversation(turns=tuple(turns)), models=models, refusal="")
        return await self.answering.prepare(
            AnswerRequest(
                caller=caller,
                turns=tuple(turns),
                retrieval=retrieval if choice.rag and not chore else None,
                model=choice.model,
                sampling=sampling,
                tools=tuple(dict(tool) for tool in tools),
                tool_choice=tool_choice,
                json_format=json_format,
            )
        )


def figures(prepared: Prepared, answer: Answer) -> Figures:
    """Return the cost of the answer."""
    usage = answer.usage
    asked = [turn.content for turn in prepared.conversation.turns]
    asked += [passage.shown for passage in answer.passages]
    return Figures(
        prompt_tokens=sum(map(tokens, asked)) if usage.prompt_tokens is None else usage.prompt_tokens,
        answer_tokens=tokens(answer.text) if usage.answer_tokens is None else usage.answer_tokens,
        total_ns=usage.total_ns or 0,
        load_ns=usage.load_ns or 0,
        prompt_ns=usage.prompt_ns or 0,
        answer_ns=usage.answer_ns or 0,
    )


def tokens(text: str) -> int:
    """Return an estimate of the text's number of tokens."""
    return math.ceil(len(text.encode(errors="replace")) / _BYTES_OF_A_TOKEN)


def sampling(
    temperature: float | None, top_p: float | None, max_tokens: int | None, stop: Any, seed: int | None
) -> Sampling:
    """Return the sampling options; -1 and other invalid values, which clients send for "no limit", are ignored.

    Raises:
        Problem: 400, `stop` isn't a string or a list of strings.
    """
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(each, str) for each in stops):
        raise invalid("stop", "must be a string or a list of strings")
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens if max_tokens is not None and max_tokens > 0 else None,
        stop=tuple(each for each in stops if each),
        seed=seed,
    )


def objects(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the list of objects, empty for null. Raises a 400 for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise invalid(field, "must be a list of objects")
    return value


async def with_pauses(progress: AsyncGenerator[T, None], every_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the events of `progress`, and None after each `every_s` seconds without one. Closing closes `progress`."""
    waiting: asyncio.Task[T | None] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(progress, None))
            while not (await asyncio.wait({waiting}, timeout=every_s))[0]:
                yield None
            step, waiting = waiting.result(), None
            if step is None:
                return
            yield step
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await progress.aclose()


def broken(error: Exception) -> Problem:
    """Return the problem to report when an answer breaks off after its first byte."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, PipelineError):
        return of_pipeline(error)
    log.error("answer_stream_failed", exc_info=error)
    return Problem(500, "the answer broke off", code="BUG")


_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",  # OpenAI's newer name of the role
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # OpenAI's older name of the role
}


class ClientMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Its content is a string or a list of parts, or null if an assistant only called tools."""

    role: str
    content: Any = None
    tool_calls: Any = None
    tool_call_id: str | None = None
    name: str | None = None
    tool_name: str | None = None  # Ollama's field for a tool's name


def turns_of(messages: Sequence[ClientMessage], field: str = "messages") -> list[Turn]:
    """Return the turns that say something or call a tool.

    Raises:
        Problem: 400, a message has an unknown role, or content that isn't text.
    """
    turns = []
    for number, message in enumerate(messages):
        if message.role not in _ROLES:
            raise invalid(f"{field}[{number}].role", f"{message.role!r} is none of {', '.join(_ROLES)}")
        role = _ROLES[message.role]
        text = text_of(message.content, f"{field}[{number}].content")
        calls = _calls(message.tool_calls, f"{field}[{number}].tool_calls") if role == "assistant" else ()
        if text or calls or role == "tool":
            turns.append(
                Turn(
                    role=role,
                    content=text,
                    tool_calls=calls,
                    tool_call_id=message.tool_call_id if role == "tool" else None,
                    name=(message.tool_name or message.name) if role == "tool" else None,
                )
            )
    return turns


def _calls(given: Any, field: str) -> tuple[ToolCall, ...]:
    calls = []
    for number, call in enumerate(objects(given, field)):
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid(f"{field}[{number}]", "must name a function")
        arguments = function.get("arguments") or {}
        if isinstance(arguments, str):  # OpenAI's; Ollama's is an object
            arguments = parse_json(arguments, f"{field}[{number}].function.arguments")
        if not isinstance(arguments, dict):
            raise invalid(f"{field}[{number}].function.arguments", "must be a JSON object")
        calls.append(
            ToolCall(
                id=str(call.get("id") or f"call_{number}"),
                name=function["name"],
                arguments=msgspec.json.encode(arguments).decode(),
            )
        )
    return tuple(calls)


def text_of(content: Any, field: str) -> str:
    """Return the text of a string or of a list of parts; parts that aren't text, such as images, are left out.

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
