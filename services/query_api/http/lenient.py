"""Takes values as workflow tools send them daily, where their meaning is certain, and refuses what was never filled in.

n8n sends a number where a text is meant, an empty text for a number, an empty list for an object, and an expression
that it didn't evaluate as its own text.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from services.query_api.http.problems import invalid

_TEXT, _NUMBER, _TEXTS, _LIST, _OBJECT = "text", "number", "texts", "list", "object"  # a flag is a number
_LONGEST: Final = 2_000  # characters of a text that was never filled in
_ADDRESSES: Final = frozenset({"source", "path", "url", "callbackUrl"})  # with a part unfilled, all items have one
_NOTHING: Final = frozenset({"undefined", "null", "NaN", "Invalid Date", "Invalid DateTime"})  # as scripts write it


def lenient(value: Mapping[str, Any], body: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields as the struct `body` has them, and a sentence for each that was taken otherwise.

    Raises:
        Problem: 400, a text is an expression that wasn't evaluated, or a required field is one level too deep.
    """
    taken, doubts, kinds = dict(value), dict[str, str](), _kinds(body)
    _check_unwrapped(value, body)
    for name, field in value.items():
        kind = kinds.get(name, frozenset())
        if isinstance(field, str) or kind & {_TEXTS, _OBJECT}:
            check_filled(name, field)
        if isinstance(field, str):
            if _NUMBER in kind and _TEXT not in kind and not field.strip():
                del taken[name]
                doubts[name] = f"{name}: an empty text was taken as not given"
            elif _TEXT in kind and len(field) < 30 and field.strip() in _NOTHING:
                doubts[name] = f"{name}: {field.strip()!r} was taken as a text; the workflow may have had no value"
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


def check_filled(name: str, value: Any) -> None:
    """Raise a 400 if a text in the value is an expression that wasn't evaluated, or what a script makes of an object.

    Of what names a document or a page, no part may be one.
    """
    if (found := _first_unfilled(value, part=name in _ADDRESSES)) is not None:
        within, text = found
        raise invalid(name + within, f"is {text.strip()[:100]!r}: the workflow sent an expression instead of its value")


def _first_unfilled(value: Any, *, part: bool) -> tuple[str, str] | None:
    """Return where in the value the text is, and the text. The way to it is made from its end, where there is one."""
    if isinstance(value, str):
        return ("", value) if _unfilled(value, part=part) else None
    if isinstance(value, list):
        for number, each in enumerate(value):
            if (found := _first_unfilled(each, part=part)) is not None:
                return f"[{number}]{found[0]}", found[1]
    if isinstance(value, dict):
        for key, each in value.items():
            if (found := _first_unfilled(each, part=part)) is not None:
                return f".{key[:100]}{found[0]}", found[1]
    return None


def _unfilled(text: str, *, part: bool) -> bool:
    if len(text) > _LONGEST or ("$" not in text and not text.lstrip().startswith("[object ")):
        return False
    text = text.strip()
    expression, closed, _ = text.partition("{{")[2].partition("}}")
    if part and closed and "$" in expression:
        return True
    if text.startswith(("{{", "={{")):
        return text.endswith("}}") and text.count("{{") == 1
    return all(each.startswith("[object ") and each.endswith("]") and each.count(" ") == 1 for each in text.split(","))


def _check_unwrapped(value: Mapping[str, Any], body: Any) -> None:
    """Raise a 400 if a field that is required is within another one, as in n8n's items and in its webhook's."""
    for required in _required(body):
        if value.get(required) is not None:
            continue
        for name, field in value.items():
            inner = field[0] if isinstance(field, list) and field else field
            if isinstance(inner, dict) and required in inner:
                raise invalid(required, f"is required; it is within {name[:100]}: send what that holds")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_text(number: float) -> str:
    return msgspec.json.encode(number).decode()


def texts_of(body: Any) -> frozenset[str]:
    """Return the fields of the struct `body` that are texts and nothing else."""
    return frozenset(name for name, kinds in _kinds(body).items() if kinds == {_TEXT})


@functools.cache
def _required(body: Any) -> tuple[str, ...]:
    if not (isinstance(body, type) and issubclass(body, msgspec.Struct)):
        return ()
    return tuple(field.encode_name for field in msgspec.structs.fields(body) if field.required)


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
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType() | msgspec.inspect.BoolType():
            return {_NUMBER}
        case msgspec.inspect.ListType():
            return {_TEXTS} if _kinds_of(type_.item_type) == {_TEXT} else {_LIST}
        case msgspec.inspect.DictType() | msgspec.inspect.StructType():
            return {_OBJECT}
        case _:
            return set()
