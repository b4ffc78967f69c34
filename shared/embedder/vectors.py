"""Normalises vectors and refuses texts that can't be embedded, for all adapters."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shared.embedder import Vector
from shared.errors import Rejected


def unit(values: ArrayLike) -> Vector:
    """Return `values` at length 1, in float32, read-only: |norm² - 1| < 1e-6.

    Raises:
        ValueError: a value isn't finite, or all are zero.
    """
    # In float64, because a norm summed in float32 is off by more than 1e-6.
    exact = np.asarray(values, dtype=np.float64)
    length = float(np.linalg.norm(exact))
    if not (np.isfinite(length) and length > 0):
        raise ValueError(f"a vector of length {length} can't be normalized")
    vector: Vector = (exact / length).astype(np.float32)
    vector.flags.writeable = False  # the query cache hands one array to many callers
    return vector


def refuse_unreadable(texts: Sequence[str]) -> None:
    """Raise Rejected if a text is blank, or holds half a surrogate pair and so isn't Unicode text."""
    for position, text in enumerate(texts):
        if not text.strip():
            raise Rejected(f"text {position} of {len(texts)} is blank, so it can't be embedded", "blank_text")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Rejected(
                f"text {position} of {len(texts)} is not Unicode text: it has the lone surrogate "
                f"{text[error.start]!a} at character {error.start}",
                "not_unicode",
            ) from error
