"""Fitted coefficients that turn features into a probability, one set per model, with their provenance.

`calibrations.json` is written by `python -m tests.bench.calibrate`; nobody edits it by hand.
"""

import functools
import math
from pathlib import Path
from typing import Final, Protocol

import msgspec

from shared.embedder import BUILT_IN_MODEL
from shared.state.generations import CosineScale

FILE: Final = Path(__file__).with_name("calibrations.json")
_STEP: Final = 1.25  # step to which the log odds are rounded
WORDS: Final = "words"  # name of the calibration for searches without vectors


class Scorer(Protocol):
    """Turns features into a score."""

    def score(self, cosine: float, coverage: float, phrases: float, similar: float) -> float:
        """Return the score of these `Features`, 0..1."""
        ...


class _Probabilities(dict[int, float]):
    """The probability by the number of steps of its log odds, a few dozen."""

    def __missing__(self, steps: int) -> float:
        self[steps] = found = round(1 / (1 + math.exp(-_STEP * steps)), 4)
        return found


_PROBABILITIES: Final = _Probabilities()


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A logistic regression and its provenance."""

    model: str  # the embedding model's name, or `words`
    fitted_on: str  # names of the judged collections
    queries: int
    pairs: int  # number of pairs of a query and a passage
    intercept: float
    cosine: float
    coverage: float
    phrases: float
    similar: float

    def score(self, cosine: float, coverage: float, phrases: float, similar: float) -> float:
        """Return the probability that the passage answers the query, 0..1.

        The log odds are rounded to steps of 1.25, because finer differences mean nothing. Equal scores are then ordered
        by the fused ranking, which knows how rare the words are in this index.
        """
        odds = (
            self.intercept
            + self.cosine * cosine
            + self.coverage * coverage
            + self.phrases * phrases
            + self.similar * similar
        )
        return _PROBABILITIES[round(odds / _STEP)]


class Rescaled:
    """The scorer of a model without a calibration: the built-in model's, with cosines that are put on its scale."""

    def __init__(self, scale: CosineScale) -> None:
        self._calibration = calibrations()[BUILT_IN_MODEL]
        self._factor = scale.built_in_spread / scale.spread
        self._shift = scale.built_in_mean - self._factor * scale.mean

    def score(self, cosine: float, coverage: float, phrases: float, similar: float) -> float:
        """Return the built-in model's score, 0..1."""
        return self._calibration.score(self._factor * cosine + self._shift, coverage, phrases, similar)


@functools.cache
def calibrations() -> dict[str, Calibration]:
    """Return the calibrations by model."""
    return {each.model: each for each in msgspec.json.decode(FILE.read_bytes(), type=list[Calibration])}


def scorer_of(model: str, scale: CosineScale | None = None) -> Scorer:
    """Return the scorer for an embedding model; `words` for searches without vectors.

    A model without a calibration is scored by words until the `scale` of its cosines is known.
    """
    found = calibrations().get(model)
    return Rescaled(scale) if found is None and scale is not None else found or calibrations()[WORDS]
