"""Rounds vectors to half precision (IEEE 754 binary16), so that a store keeps them in half the space without a loss.

docs/adr/0016-vectors.md
"""

from typing import Final, Literal

import numpy as np

from shared.embedder import Vector

LEAST_DIMENSION: Final = 64  # shorter vectors stay as they are: too few numbers to choose from for length 1
Precision = Literal["full", "half"]
_NEAR: Final = 4e-7  # |norm² - 1| of a result; Qdrant changes vectors with more than 1e-6


def precision_of(dimension: int) -> Precision:
    """Return the precision in which a new index stores vectors of this length."""
    return "half" if dimension >= LEAST_DIMENSION else "full"


def half_precision(vector: Vector) -> Vector:
    """Return a unit vector of float32 near a unit vector, whose numbers are exact in half precision.

    Each number is rounded. That changes the length by about 1e-5, so a few numbers are rounded the other way. Where
    that isn't enough, because nearly all numbers are zero, the smallest ones take the rest. A result comes back
    unchanged. The cosine with another unit vector changes by less than 0.001.
    """
    if vector.size < LEAST_DIMENSION:
        return vector
    rounded = vector.astype(np.float16)
    excess = _excess(rounded)
    if abs(excess) > _NEAR:
        _round_others(rounded, excess)
        if abs(_excess(rounded)) > _NEAR:
            _fill_up(rounded)
    result: Vector = rounded.astype(np.float32)
    result.flags.writeable = False
    return result


def _excess(halves: np.ndarray[tuple[int], np.dtype[np.float16]]) -> float:
    exact = halves.astype(np.float64)
    return float(exact @ exact) - 1.0


def _round_others(halves: np.ndarray[tuple[int], np.dtype[np.float16]], excess: float) -> None:
    """Move numbers to the next half, those with the largest effect first, as long as none overshoots length 1."""
    away = np.where(halves < 0, np.float16(-np.inf), np.float16(np.inf))
    following = np.nextafter(halves, np.float16(0) if excess > 0 else away)
    gains = halves.astype(np.float64) ** 2 - following.astype(np.float64) ** 2
    order = np.argsort(-np.abs(gains), kind="stable")
    for at, gain in zip(order.tolist(), gains[order].tolist(), strict=True):  # Python's own numbers: ten times as fast
        if abs(gain) <= abs(excess):
            halves[at] = following[at]
            excess -= gain
            if abs(excess) <= _NEAR:
                return


def _fill_up(halves: np.ndarray[tuple[int], np.dtype[np.float16]]) -> None:
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
