"""Checks a caller's metadata, which is stored with every chunk, against the store's limits. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from shared.inputs.limits import InvalidField

MOST_DEPTH: Final = 16  # the store's own limit for payloads
MOST_BYTES: Final = 40_000
_LONGEST_NAME: Final = 200  # characters of each name in a path
_MOST_INTEGER: Final = 2**63 - 1


def checked_metadata(metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the metadata if a caller may send it.

    Raises:
        InvalidField: an integer is too large, or the whole is too large or nested too deeply.
    """
    try:
        size = len(msgspec.json.encode(metadata))
    except RecursionError:
        size = 0  # the check says how deep it may be
    if size > MOST_BYTES:  # first, because the check costs more
        raise InvalidField(field, f"is larger than {MOST_BYTES} bytes")
    _check(metadata, field, ())
    return dict(metadata)


def _check(value: Any, field: str, path: tuple[int | str, ...]) -> None:
    if len(path) > MOST_DEPTH:
        raise InvalidField(field, f"is nested deeper than {MOST_DEPTH} levels")
    if isinstance(value, int) and abs(value) > _MOST_INTEGER:
        steps = (f".{step[:_LONGEST_NAME]}" if isinstance(step, str) else f"[{step}]" for step in path)
        raise InvalidField(field + "".join(steps), "is an integer beyond 64 bits; send it as a string")
    items: Iterable[tuple[int | str, Any]] = ()
    if isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, Mapping):
        items = value.items()
    for name, each in items:
        _check(each, field, (*path, name))


FIELD: Final = "languageVariants"  # field of a chunk's metadata: by language, a text or an object with a text


def variant_text(metadata: Mapping[str, Any], language: str) -> str | None:
    """Return the chunk's text in the language; None if it has none, or a blank one."""
    variants = metadata.get(FIELD)
    return _text(variants.get(language)) if isinstance(variants, Mapping) else None


def text_in(language: str | None, text: str, metadata: Mapping[str, Any]) -> str:
    """Return the chunk's text in the language if there is one, else `text`."""
    return (language and variant_text(metadata, language)) or text


def variant_texts(metadata: Mapping[str, Any]) -> list[str]:
    """Return the chunk's texts in all languages, in their order."""
    variants = metadata.get(FIELD)
    found = map(_text, variants.values()) if isinstance(variants, Mapping) else ()
    return [text for text in found if text is not None]


def _text(variant: Any) -> str | None:
    text = variant.get("text") if isinstance(variant, Mapping) else variant
    return text if isinstance(text, str) and text.strip() else None
