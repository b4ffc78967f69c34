"""Computes the features of a query and a passage, from which a hit's score is computed. Pure.

The features depend only on the query and the passage: not on the other hits of the search (ranks, fused scores) and not
on the rest of the index (BM25's term rarity). So a threshold means the same everywhere
(docs/adr/0061-a-score-that-compares.md).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from services.query_api.search.words import adjacent, distinct_stems, occurring, stem, weight, words

_HEADINGS: Final = 4_096  # titles and sections whose stems are cached


class Question(msgspec.Struct, frozen=True):
    """A query, prepared for many passages."""

    weights: Mapping[str, float]  # by stem, without stop words
    pairs: frozenset[tuple[str, str]]  # pairs of adjacent stems
    total: float  # sum of the weights


def question(text: str) -> Question:
    """Return the query's stems with their weights."""
    weighted = [(stem(word), weight(word)) for word in words(text)]
    weights = {found: value for found, value in weighted if value}
    pairs = frozenset((a, b) for (a, x), (b, y) in pairwise(weighted) if x and y)
    return Question(weights, pairs, math.fsum(weights.values()))


class Features(msgspec.Struct, frozen=True):
    """The features of one query and one passage."""

    cosine: float  # of their vectors, -1..1; 0 without vectors
    coverage: float  # share of the query's weight whose words occur in the passage, its title or its section, 0..1
    phrases: float  # share of the query's pairs of words that are adjacent in the passage, 0..1


def features(asked: Question, cosine: float, text: str, headings: Sequence[str]) -> Features:
    """Return the features; `headings` are the passage's title and section."""
    there = occurring(asked.weights, text)
    possible = [pair for pair in asked.pairs if pair[0] in there and pair[1] in there]
    together = len(adjacent(possible, text)) if possible else 0
    found = there
    for heading in headings:
        found |= asked.weights.keys() & _heading_stems(heading)
    return Features(
        cosine=cosine,
        coverage=math.fsum(asked.weights[term] for term in found) / asked.total if found else 0.0,
        phrases=together / len(asked.pairs) if asked.pairs else 0.0,
    )


@functools.lru_cache(_HEADINGS)
def _heading_stems(heading: str) -> frozenset[str]:
    return distinct_stems(words(heading))
