"""Reads how OpenAI's and Ollama's clients ask for JSON (structured outputs)."""

from typing import Any, Final

from services.query_api.clients.models import Choice
from services.query_api.http.problems import invalid
from shared.answers import JsonFormat

_TYPES: Final = ("text", "json_object", "json_schema")


def openai_format(value: Any, choice: Choice, field: str) -> JsonFormat | None:
    """Return the format, or None for prose. The responses API has a schema's fields beside `type`, chat in an object.

    Raises:
        Problem: 400, the value isn't a format of OpenAI's, or the chosen model only quotes.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise invalid(field, "must be an object")
    kind = value.get("type")
    if kind not in _TYPES:
        raise invalid(f"{field}.type", f"is {kind!r}; allowed are: {', '.join(_TYPES)}")
    if kind == "text":
        return None
    if kind == "json_object":
        return _written(JsonFormat(), choice, field)
    inner, place = (value["json_schema"], f"{field}.json_schema") if "json_schema" in value else (value, field)
    if not isinstance(inner, dict):
        raise invalid(place, "must be an object")
    name, description, strict = inner.get("name"), inner.get("description"), inner.get("strict")
    wanted = JsonFormat(
        schema=_schema(inner.get("schema"), f"{place}.schema"),
        name=name if isinstance(name, str) and name else JsonFormat().name,
        description=description if isinstance(description, str) else None,
        strict=strict if isinstance(strict, bool) else None,
    )
    return _written(wanted, choice, field)


def ollama_format(value: Any, choice: Choice) -> JsonFormat | None:
    """Return the format, or None for prose. Ollama takes "json" or a JSON Schema.

    Raises:
        Problem: 400, the value is neither, or the chosen model only quotes.
    """
    if value is None or value == "":
        return None
    wanted = JsonFormat() if value == "json" else JsonFormat(schema=_schema(value, "format", or_else=' or "json"'))
    return _written(wanted, choice, "format")


def _schema(value: Any, field: str, or_else: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(field, f"must be a JSON Schema, an object{or_else}")
    return value


def _written(wanted: JsonFormat, choice: Choice, field: str) -> JsonFormat:
    if choice.only_quotes:
        raise invalid(field, f"{choice.model} only quotes documents; JSON needs a language model")
    return wanted
