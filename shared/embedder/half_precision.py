"""Rounds vectors to half precision (IEEE 754 binary16), so that a store keeps them in half the space without a loss.

docs/adr/0016-vectors.md
"""

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from shared.embedder import Vector

LEAST_DIMENSION: Final = 64  # shorter vectors stay as they are: too few numbers to choose from for length 1
Precision = Literal["full", "half"]
_Halves = NDArray[np.float16]
_NEAR: Final = 4e-7  # |norm² - 1| of a result; Qdrant changes vectors with more than 1e-6


def precision_of(dimension: int) -> Precision:
    """Return the precision in which a new index stores vectors of this length."""
    return "half" if dimension >= LEAST_DIMENSION else "full"


def half_precision(vectors: Sequence[Vector]) -> list[Vector]:
    """Return unit vectors of float32 near these unit vectors of one length, whose numbers are exact in half precision.

    Each number is rounded. That changes the length by about 1e-5, so a few numbers are rounded the other way. Where
    that isn't enough, because nearly all numbers are zero, the smallest ones take the rest. A result comes back
    unchanged. The cosine with another unit vector changes by less than 0.001. What a vector becomes doesn't depend on
    the others: they share numpy's calls, which cost more than the numbers.
    """
    if not vectors or vectors[0].size < LEAST_DIMENSION:
        return [*vectors]
    rounded = np.stack(vectors).astype(np.float16)
    excess = _excess(rounded)
    wrong = np.flatnonzero(np.abs(excess) > _NEAR)
    if wrong.size:
        rounded[wrong] = _rounded_otherwise(rounded[wrong], excess[wrong])
        for at in wrong[np.abs(_excess(rounded[wrong])) > _NEAR]:
            _fill_up(rounded[at])
    results = rounded.astype(np.float32)
    results.flags.writeable = False
    return [*results]


def _excess(halves: _Halves) -> NDArray[np.float64]:
    """Return by how much the square of each row's length is above 1."""
    exact = halves.astype(np.float64)
    squares: NDArray[np.float64] = (exact * exact).sum(axis=-1) - 1.0
    return squares


def _rounded_otherwise(halves: _Halves, excess: NDArray[np.float64]) -> _Halves:
    """Move numbers to the next half, those with the largest effect first, as long as none overshoots length 1."""
    # One less, or one more: halves are ordered as their bits.
    toward = np.where(excess > 0, 0xFFFF, 1).astype(np.uint16)
    following = (halves.view(np.uint16) + toward[:, None]).view(np.float16)
    np.copyto(following, halves, where=halves == 0)
    gains = halves.astype(np.float64) ** 2 - following.astype(np.float64) ** 2
    effects = np.abs(gains)
    rows = np.arange(len(halves))
    for _ in range(halves.shape[1]):  # a model's vectors need about five, one of few different numbers more
        left = effects[rows]
        best = (left * (left <= np.abs(excess[rows])[:, None])).argmax(axis=1)
        fits = (effects[rows, best] > 0) & (effects[rows, best] <= np.abs(excess[rows]))
        rows, best = rows[fits], best[fits]
        halves[rows, best] = following[rows, best]
        excess[rows] -= gains[rows, best]
        effects[rows, best] = 0.0
        rows = rows[np.abs(excess[rows]) > _NEAR]
        if not rows.size:
            break
    return halves


def _fill_up(halves: _Halves) -> None:
    """Bring the length to 1 by the smallest numbers alone."""
    ascending = np.argsort(np.abs(halves), kind="stable")
    excess = _excess(halves)
    if excess > _NEAR:  # all zeros but a few large numbers: make one too small first
        largest = ascending[-1]
        halves[largest] = np.nextafter(halves[largest], np.float16(0))
    for at in ascending:
        excess = _excess(halves)
        if abs(excess) <= _NEAR:
            return
        wanted = np.sqrt(float(halves[at]) ** 2 - excess)
        grown = np.float16(wanted)
        if float(grown) > wanted:
            grown = np.nextafter(grown, np.float16(0))
        halves[at] = -grown if halves[at] < 0 else grown
