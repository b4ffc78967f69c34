"""What can go wrong."""

from collections.abc import Mapping
from typing import Any


class SluiceError(Exception):
    """The server refused a request, or a document failed. The text is the server's own sentence."""

    def __init__(self, sentence: str, *, status: int, code: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.status = status  # of HTTP; 0: there was no reply
        self.code = code  # such as INVALID, NOT_FOUND, EMPTY or CONFLICT
        self.details = dict(details or {})


class SluiceUnreachableError(SluiceError):
    """The server didn't reply, or asked to come again later for longer than the client's patience."""
