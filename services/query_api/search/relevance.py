"""Compares passages with a query: computes the features of both, and the score from fitted coefficients. Pure.

The features depend only on the query and the passage: not on the other hits of the search (ranks, fused scores) and not
on the rest of the index (BM25's term rarity). So a threshold means the same everywhere
(docs/adr/0020-scores.md).

A set of coefficients turns features into a probability, one for each model, with its provenance. `calibrations.json` is
written by `python -m tests.bench.calibrate`, but for the words' entry, which that wouldn't improve.
"""

import functools
import heapq
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from services.query_api.search.candidates import Candidate, Features, WordFeatures
from services.query_api.search.word_frequencies import weights_of
from shared.embedder import BUILT_IN_MODEL
from shared.state.generations import CosineScale
from shared.text.occurrences import adjacent, occurring
from shared.text.words import BEGINNINGS, STEMS, Forms, exact_forms, words

FILE: Final = Path(__file__).with_name("calibrations.json")
_STEP: Final = 1.5  # step to which the log odds are rounded
_STEP_OF_WORDS: Final = 2.5  # without vectors: words alone tell less apart than how rare each is in this index
WORDS: Final = "words"  # name of the calibration for searches without vectors


@functools.cache  # a few dozen
def _probability(step: float, steps: int) -> float:
    """Return the probability by its log odds in steps."""
    return round(1 / (1 + math.exp(-step * steps)), 4)


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

    def score(self, cosine: float, coverage: float, phrases: float) -> float:
        """Return the probability that the passage answers the query, 0..1.

        The log odds are rounded to steps of 1.5, and without vectors of 2.5, because finer differences mean nothing.
        Equal scores are then ordered by the fused ranking, which knows how rare the words are in this index.
        """
        odds = self.intercept + self.cosine * cosine + self.coverage * coverage + self.phrases * phrases
        step = _STEP if self.cosine else _STEP_OF_WORDS
        return _probability(step, round(odds / step))


@functools.cache
def calibrations() -> dict[str, Calibration]:
    """Return the calibrations by model."""
    return {each.model: each for each in msgspec.json.decode(FILE.read_bytes(), type=list[Calibration])}


def scorer_of(model: str, scale: CosineScale | None = None) -> Calibration:
    """Return the calibration for an embedding model; `words` for searches without vectors.

    A model without one gets the built-in model's, with its cosines put on that one's scale. Until the `scale` of its
    cosines is known, it is scored by words.
    """
    found = calibrations().get(model)
    if found is not None or scale is None:
        return found or calibrations()[WORDS]
    own, factor = calibrations()[BUILT_IN_MODEL], scale.built_in_spread / scale.spread
    shifted = own.intercept + own.cosine * (scale.built_in_mean - factor * scale.mean)
    return msgspec.structs.replace(own, intercept=shifted, cosine=own.cosine * factor)


class Question(msgspec.Struct, frozen=True):
    """A query, prepared for many passages."""

    weights: Mapping[str, float]  # by stem, without stop words
    pairs: frozenset[tuple[str, str]]  # pairs of adjacent stems
    total: float  # sum of the weights
    forms: Forms  # how its words are compared


def question(text: str) -> Question:
    """Return the query's stems with their weights.

    If it isn't English, the words' beginnings are their stems, and lengths and capitals tell the weights.
    """
    weigh, english = weights_of(text)
    forms, exact = STEMS if english else BEGINNINGS, exact_forms(text)
    weighted = [(forms[word], weigh(exact.get(word, word))) for word in words(text)]
    weights = {found: value for found, value in weighted if value}
    pairs = frozenset((a, b) for (a, x), (b, y) in pairwise(weighted) if x and y)
    return Question(weights, pairs, math.fsum(weights.values()), forms)


def compare_words(asked: Question, candidates: Sequence[Candidate]) -> list[WordFeatures]:
    """Return the features of each candidate's words. Candidates with the same words of the query share the sums."""
    bits = {each: 1 << number for number, each in enumerate(asked.weights)}

    @functools.cache
    def of(in_text: int, in_headings: int) -> WordFeatures:
        found = in_text | in_headings
        pairs = sum(bool(in_text & bits[a]) and bool(in_text & bits[b]) for a, b in asked.pairs)
        covered = math.fsum(asked.weights[each] for each, bit in bits.items() if found & bit)
        return WordFeatures(covered / (asked.total or 1.0), pairs / len(asked.pairs) if pairs else 0.0)

    texts, headings = [each.text for each in candidates], ["\n".join(each.headings) for each in candidates]
    occurs = occurring(tuple(bits), texts + headings, asked.forms)
    return [of(*both) for both in zip(occurs, occurs[len(texts) :], strict=False)]


def best(asked: Question, scorer: Calibration, candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return the `count` candidates with the highest scores, with score and features; ties keep their order.

    Adjacent words only raise a score. So the candidates are taken by the most that they could score, and these words
    are looked for only if that comes first and would change the score; the features are else without them.
    """
    if not candidates or count <= 0:
        return []
    score, compared = scorer.score, compare_words(asked, candidates)
    waiting = [
        (-score(each.cosine, coverage, phrases), at)
        for at, (each, (coverage, phrases)) in enumerate(zip(candidates, compared, strict=True))
    ]
    heapq.heapify(waiting)
    whole: dict[int, Features] = {}
    found: list[Candidate] = []
    while waiting and len(found) < count:
        negative, at = waiting[0]
        candidate, of = candidates[at], compared[at]
        known = whole.get(at)
        if known is None and score(candidate.cosine, of.coverage, 0.0) == -negative:
            known = Features(candidate.cosine, of.coverage, 0.0)
        if known is not None:
            heapq.heappop(waiting)
            candidate.score, candidate.features = -negative, known
            found.append(candidate)
        else:
            together = adjacent(asked.pairs, candidate.text, asked.forms) if of.phrases else ()
            phrases = len(together) / len(asked.pairs) if together else 0.0
            whole[at] = known = Features(candidate.cosine, of.coverage, phrases)
            heapq.heapreplace(waiting, (-score(*known), at))
    return found
