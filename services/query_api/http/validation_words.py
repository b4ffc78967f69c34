"""Rewrites msgspec's validation messages for people who don't know Python's types. Pure."""

import re
from typing import Final

_EXPECTED: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "datetime": "a time such as 2026-05-01T10:00:00Z",
    "uuid": "a UUID",
    "bytes": "base64 text",
    "null": "null",
}
_GOT: Final = {**_EXPECTED, "int": "a number", "bool": "a boolean"}
_COUNTED: Final = {"str": "character", "array": "item", "object": "field", "bytes": "byte"}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_INVALID: Final = {
    "Invalid UUID": "must be a UUID",
    "Invalid RFC3339 encoded datetime": "must be a time such as 2026-05-01T10:00:00Z",
    "Invalid RFC3339 encoded date": "must be a date such as 2026-05-01",
    "Invalid base64 encoded string": "must be base64 text",
    "Integer value out of range": "is too large",
    "Number out of range": "is too large",
}

_TYPE: Final = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?")
_LENGTH: Final = re.compile(r"Expected `(str|array|object|bytes)` of length (>=|<=) (\d+)")
_BOUND: Final = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (-?[\d.e+-]+)")
_CHOICE: Final = re.compile(r"Invalid (?:enum )?value (.+)", re.DOTALL)


def in_words(message: str) -> str:
    """Return the rule that the value breaks, to follow the field's name, such as `must be text, not a number`.

    `message` is msgspec's, without the path at its end. An unknown message is returned with a lower-case first letter.
    """
    if found := _TYPE.fullmatch(message):
        return _type(found[1], found[2])
    if found := _LENGTH.fullmatch(message):
        unit = _COUNTED[found[1]] + ("" if found[3] == "1" else "s")
        return f"must have {_BOUNDS[found[2]]} {found[3]} {unit}"
    if found := _BOUND.fullmatch(message):
        return f"must be {_BOUNDS[found[1]]} {found[2].removesuffix('.0')}"
    if found := _CHOICE.fullmatch(message):
        return f"{found[1]} is not a possible value; /openapi.json lists the possible ones"
    return _INVALID.get(message) or message[:1].lower() + message[1:]


def _type(expected: str, got: str | None) -> str:
    # null is left out of the possible kinds: a caller who sent a wrong value doesn't want to send none.
    kinds = [kind for kind in expected.split(" | ") if kind != "null"] or ["null"]
    if got == "float" and "int" in kinds:
        return f"must be {_any_of(kinds)}, without a fraction"
    refused = f", not {_GOT.get(got, got)}" if got else ""
    return f"must be {_any_of(kinds)}{refused}"


def _any_of(kinds: list[str]) -> str:
    words = [_EXPECTED.get(kind, kind) for kind in kinds]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
