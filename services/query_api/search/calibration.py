"""Fitted coefficients that turn features into a probability, one set a model, with where they came from.

`calibrations.json` is written by `python -m tests.bench.calibrate`; nobody edits it by hand.
"""

import functools
import math
from pathlib import Path
from typing import Final, Protocol

import msgspec

from services.query_api.search.relevance import Features

FILE: Final = Path(__file__).with_name("calibrations.json")
_STEP: Final = 1.25  # of the logarithm of odds
WORDS: Final = "words"  # the calibration that knows no vectors


class Scorer(Protocol):
    """Turns features into a score."""

    def score(self, features: Features) -> float:
        """Return the score, 0..1."""
        ...


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A logistic regression, and where it comes from."""

    model: str  # the embedding model's name, or `words`
    fitted_on: str  # the judged collections
    queries: int
    pairs: int  # of a query and a passage
    intercept: float
    cosine: float
    coverage: float
    phrases: float

    def score(self, features: Features) -> float:
        """Return how likely the passage answers the query, 0..1.

        The logarithm of the odds is rounded to steps of 1.25. Finer differences say nothing, and the fused ranking,
        which knows how rare the words are in this index, orders what has the same score.
        """
        odds = (
            self.intercept
            + self.cosine * features.cosine
            + self.coverage * features.coverage
            + self.phrases * features.phrases
        )
        return round(1 / (1 + math.exp(-_STEP * round(odds / _STEP))), 4)


class Plain:
    """Stands in where a model has no calibration: the mean of cosine and coverage. Comparable, but no probability."""

    def score(self, features: Features) -> float:
        """Return the mean, 0..1."""
        return (min(1.0, max(0.0, features.cosine)) + features.coverage) / 2


@functools.cache
def calibrations() -> dict[str, Calibration]:
    """Return what is fitted, by model."""
    return {each.model: each for each in msgspec.json.decode(FILE.read_bytes(), type=list[Calibration])}


def scorer_of(model: str) -> Scorer:
    """Return the scorer of an embedding model's cosines; `words` for none."""
    return calibrations().get(model) or Plain()
