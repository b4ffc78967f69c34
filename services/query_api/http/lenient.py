"""Takes values as workflow tools send them daily, where their meaning is certain, and refuses what was never filled in.

n8n sends a number where a text is meant, an empty text for a number, an empty list for an object, and an expression
that it didn't evaluate as its own text.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from services.query_api.http.problems import invalid

_TEXT, _NUMBER, _TEXTS, _LIST, _OBJECT = "text", "number", "texts", "list", "object"
_OF_AN_OBJECT: Final = "[object Object]"  # what JavaScript makes of an object as a text
_LONGEST: Final = 2_000  # characters of a text that was never filled in


def lenient(value: Mapping[str, Any], body: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields as the struct `body` has them, and a sentence for each that was taken otherwise.

    Raises:
        Problem: 400, a text is an expression that wasn't evaluated.
    """
    taken, doubts, kinds = dict(value), dict[str, str](), _kinds(body)
    for name, field in value.items():
        kind = kinds.get(name, frozenset())
        if isinstance(field, str):
            if _unfilled(field):
                raise invalid(name, f"is {field.strip()[:100]!r}: the workflow sent an expression instead of its value")
            if _NUMBER in kind and _TEXT not in kind and not field.strip():
                del taken[name]
                doubts[name] = f"{name}: an empty text was taken as not given"
        elif _is_number(field) and _TEXT in kind and _NUMBER not in kind:
            taken[name] = _as_text(field)
            doubts[name] = f"{name}: the number {taken[name]} was taken as text"
        elif isinstance(field, list) and not field and _OBJECT in kind and not kind & {_LIST, _TEXTS}:
            del taken[name]
            doubts[name] = f"{name}: an empty list was taken as not given"
        elif isinstance(field, list) and _TEXTS in kind and any(map(_is_number, field)):
            taken[name] = [_as_text(each) if _is_number(each) else each for each in field]
            doubts[name] = f"{name}: numbers were taken as texts"
    return taken, doubts


def _unfilled(text: str) -> bool:
    if len(text) > _LONGEST:
        return False
    text = text.strip()
    whole = text.startswith(("{{", "={{")) and text.endswith("}}") and text.count("{{") == 1 and "$" in text
    return whole or (text.startswith(_OF_AN_OBJECT) and {*text.split(",")} == {_OF_AN_OBJECT})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(number: float) -> str:
    return msgspec.json.encode(number).decode()


@functools.cache
def _kinds(body: Any) -> dict[str, frozenset[str]]:
    if not (isinstance(body, type) and issubclass(body, msgspec.Struct)):
        return {}
    info = msgspec.inspect.type_info(body)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.encode_name: frozenset(_kinds_of(field.type)) for field in info.fields}


def _kinds_of(type_: msgspec.inspect.Type) -> set[str]:
    match type_:
        case msgspec.inspect.UnionType():
            return set[str]().union(*(_kinds_of(each) for each in type_.types))
        case msgspec.inspect.Metadata():
            return _kinds_of(type_.type)
        case msgspec.inspect.StrType():
            return {_TEXT}
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return {_NUMBER}
        case msgspec.inspect.ListType():
            return {_TEXTS} if _kinds_of(type_.item_type) == {_TEXT} else {_LIST}
        case msgspec.inspect.DictType() | msgspec.inspect.StructType():
            return {_OBJECT}
        case _:
            return set()
