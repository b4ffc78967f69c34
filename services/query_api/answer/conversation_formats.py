"""Reads conversations and options in the forms of OpenAI's, Ollama's and AgentX's clients. Pure.

Unknown fields are ignored.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from services.query_api.http.problems import invalid
from services.query_api.http.request import parse_json
from shared.answers import SAMPLING, Preferences, Role, ToolCall, Turn
from shared.contracts import like

_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",  # OpenAI's newer name of the role
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # OpenAI's older name of the role
}
_THOUGHTS: Final = ("thinking", "redacted_thinking", "reasoning")  # parts that no server takes back
_SIGNS: Final = {"/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}  # how images begin in base64; a PNG otherwise

Content = str | list[Any]  # text, or parts as OpenAI's clients send them


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Its content is a string or a list of parts, or null if an assistant only called tools."""

    role: str
    content: Any = None
    images: list[str] | None = None  # base64, as Ollama's clients send them
    tool_calls: Any = None
    tool_call_id: str | None = None
    name: str | None = None
    tool_name: str | None = None  # Ollama's field for a tool's name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Ollama's options that reach the model."""

    temperature: float | None = None
    top_p: float | None = None
    num_predict: int | None = None
    stop: Any = None
    seed: int | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    mirostat: int | None = None
    mirostat_eta: float | None = None
    mirostat_tau: float | None = None

    @property
    def sampling(self) -> dict[str, Any]:
        """Return the options by the names of `SAMPLING`."""
        return sampling(self, self.num_predict)


class Wishes(Preferences, frozen=True, kw_only=True, rename="camel"):
    """The user's wishes for the answer's style; `aiStyle` and `customTwist` are names of the Sessions contract."""

    ai_style: str | None = None
    custom_twist: str | None = None

    @property
    def preferences(self) -> Preferences:
        """Return the wishes in the form that the prompt takes."""
        styles = filter(None, (self.style, self.ai_style, self.custom_twist))
        return like(Preferences, self, style="; ".join(styles) or None)


def turns_of(messages: Sequence[ChatMessage] | None, field: str = "messages") -> list[Turn]:
    """Return the turns that say or show something, or call a tool.

    Raises:
        Problem: 400, a message has an unknown role, or content that is neither text nor an image.
    """
    turns = []
    for number, message in enumerate(messages or ()):
        if message.role not in _ROLES:
            raise invalid(f"{field}[{number}].role", f"{message.role!r} is none of {', '.join(_ROLES)}")
        role = _ROLES[message.role]
        text, images = content_of(message.content, f"{field}[{number}].content")
        images = (*images, *image_addresses(message.images))
        calls = _calls(message.tool_calls, f"{field}[{number}].tool_calls") if role == "assistant" else ()
        if text or images or calls or role == "tool":
            turns.append(
                Turn(
                    role=role,
                    content=text,
                    images=images,
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


def content_of(content: Any, field: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a string or of a list of parts, joined by line breaks, and the addresses of the images.

    Raises:
        Problem: 400, it is neither, or a part can't reach a model, for example a sound.
    """
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list):
        raise invalid(field, "must be a string or a list of parts")
    texts, images = [], []
    for number, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            raise invalid(f"{field}[{number}]", "must be a part with a type, such as {type: text, text: …}")
        text, image = part.get("text", part.get("refusal")), part.get("image_url")
        address = image.get("url") if isinstance(image, dict) else image
        if isinstance(text, str):
            texts.append(text)
        elif isinstance(address, str):
            images.append(address)
        elif part.get("type") not in _THOUGHTS:
            raise invalid(f"{field}[{number}]", f"has the type {part.get('type')!r}; only text and images can be read")
    return "\n".join(texts), tuple(images)


def image_addresses(images: Sequence[str] | None) -> tuple[str, ...]:
    """Return the images, which Ollama's clients send as base64 alone, as addresses that say their types."""
    return tuple(
        each if each.startswith("data:") else f"data:image/{_SIGNS.get(each[:4], 'png')};base64,{each}"
        for each in images or ()
    )


def sampling(given: Any, max_tokens: int | None) -> dict[str, Any]:
    """Return what a body has of `SAMPLING`; -1 and other invalid limits, which clients send for "none", are ignored.

    Raises:
        Problem: 400, `stop` isn't a string or a list of strings.
    """
    found = {name: value for name in SAMPLING if (value := getattr(given, name, None)) is not None}
    stop = found.pop("stop", [])
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(each, str) for each in stops):
        raise invalid("stop", "must be a string or a list of strings")
    if stops := [each for each in stops if each]:
        found["stop"] = stops
    found.pop("max_tokens", None)
    return found | ({"max_tokens": max_tokens} if max_tokens is not None and max_tokens > 0 else {})


def objects(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the list of objects, empty for null. Raises a 400 for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise invalid(field, "must be a list of objects")
    return value
