"""Finds the marks that structure JSON, without parsing it. Pure.

Text is looked at as arrays of bytes: a statement of Python for each mark would take a minute for a large body.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

PIECE: Final = 1 << 18  # bytes looked at at once, which takes 10 ms at worst
QUOTE, COMMA, OPENING, CLOSING = 1, 2, 3, 4
_KINDS: Final = bytes(
    {34: QUOTE, 44: COMMA, 91: OPENING, 123: OPENING, 93: CLOSING, 125: CLOSING}.get(n, 0) for n in range(256)
)
_STEPS: Final = np.array([0, 0, 0, 1, -1], np.int32)


class JsonMarks(NamedTuple):
    """The commas and brackets of a piece that are outside strings."""

    at: npt.NDArray[np.intp]  # offsets
    kinds: npt.NDArray[np.uint8]  # COMMA, OPENING or CLOSING
    depths: npt.NDArray[np.int32]  # number of brackets that are open after the mark


class JsonScanner:
    """Reads JSON piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False  # whether the next piece begins within a string, or an escape

    def feed(self, data: bytes) -> JsonMarks:
        """Return the marks of the next piece."""
        if self._escaped and data:
            data = b" " + data[1:]
            self._escaped = False
        if b"\\" in data:
            data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
            self._escaped = data.endswith(b"\\")
        kinds = np.frombuffer(data.translate(_KINDS), np.uint8)
        at = np.flatnonzero(kinds)
        kinds = kinds[at]
        quotes = kinds == QUOTE
        quoted = (np.cumsum(quotes, dtype=np.int32) + self._quoted) % 2 == 1
        if quoted.size:
            self._quoted = bool(quoted[-1])
        outside = ~(quoted | quotes)
        at, kinds = at[outside], kinds[outside]
        depths = np.cumsum(_STEPS[kinds], dtype=np.int32) + np.int32(self._depth)
        if depths.size:
            self._depth = int(depths[-1])
        return JsonMarks(at, kinds, depths)


def pieces(data: bytes, size: int = PIECE) -> Iterator[bytes]:
    """Yield the data in pieces of `size` bytes."""
    return (data[start : start + size] for start in range(0, len(data), size))
