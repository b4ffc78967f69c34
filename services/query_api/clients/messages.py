"""Turns messages in OpenAI's form into the turns of a conversation. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from services.query_api.clients.asking import objects
from services.query_api.http.problems import invalid
from services.query_api.http.request import parse_json
from shared.answers import Role, ToolCall, Turn

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
