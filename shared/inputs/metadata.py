"""Checks a caller's metadata, which is stored with every chunk, against the store's limits. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MOST_DEPTH: Final = 16  # the store's own limit for payloads
MOST_BYTES: Final = 40_000
_MOST_INTEGER: Final = 2**63 - 1


class InvalidMetadata(ValueError):  # noqa: N818 - says what the metadata are
    """A metadata field can't be stored."""

    def __init__(self, field: str, what: str) -> None:
        """Take the field's path, and what is wrong with the field."""
        super().__init__(f"{field} {what}")
        self.field = field
        self.what = what


def checked_metadata(metadata: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the metadata if a caller may send it.

    Raises:
        InvalidMetadata: an integer is too large, or the whole is too large or nested too deeply.
    """
    check_storable(metadata, field)
    if len(msgspec.json.encode(metadata)) > MOST_BYTES:
        raise InvalidMetadata(field, f"is larger than {MOST_BYTES} bytes")
    return dict(metadata)


def check_storable(metadata: Mapping[str, Any], field: str) -> None:
    """Return None if the store takes the metadata, whatever its size.

    Raises:
        InvalidMetadata: an integer is too large, or the whole is nested too deeply.
    """
    _check(metadata, field, MOST_DEPTH)


def _check(value: Any, field: str, depth: int) -> None:
    if depth < 0:
        raise InvalidMetadata(field.partition(".")[0], f"is nested deeper than {MOST_DEPTH} levels")
    if isinstance(value, int) and abs(value) > _MOST_INTEGER:
        raise InvalidMetadata(field, "is an integer beyond 64 bits; send it as a string")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check(each, f"{field}.{key}", depth - 1)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            _check(each, f"{field}[{number}]", depth - 1)
