"""Computes the features of a query and a passage; a hit's score is computed from them. Pure.

The features depend only on the query and the passage: not on the other hits of the search (ranks, fused scores) and not
on the rest of the index (BM25's term rarity). So a threshold means the same everywhere
(docs/adr/0061-a-score-that-compares.md, docs/adr/0124-similar-words.md).
"""

import functools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise
from typing import Final

import msgspec

from services.query_api.search.similar_words import similar_words
from services.query_api.search.words import adjacent, distinct_stems, occurring, stem, weight, words

_HEADINGS: Final = 4_096  # titles and sections whose stems are cached


class Question(msgspec.Struct, frozen=True):
    """A query, prepared for many passages."""

    weights: Mapping[str, float]  # by stem, without stop words
    pairs: frozenset[tuple[str, str]]  # pairs of adjacent stems
    total: float  # sum of the weights
    similar: Mapping[str, Sequence[tuple[str, float]]]  # by similar stem: the query's stems and their cosines
    nearest: Mapping[str, float]  # by stem of the query: its greatest cosine in `similar`


def question(text: str) -> Question:
    """Return the query's stems with their weights."""
    asked = words(text)
    weighted = [(stem(word), weight(word)) for word in asked]
    weights = {found: value for found, value in weighted if value}
    pairs = frozenset((a, b) for (a, x), (b, y) in pairwise(weighted) if x and y)
    similar = _similar(asked, weights)
    nearest: dict[str, float] = {}
    for own, cosine in chain.from_iterable(similar.values()):
        nearest[own] = max(cosine, nearest.get(own, 0.0))
    return Question(weights, pairs, math.fsum(weights.values()), similar, nearest)


def _similar(asked: Sequence[str], weights: Mapping[str, float]) -> dict[str, list[tuple[str, float]]]:
    """Return the query's stems, with cosines, by each stem that is similar to them."""
    found: dict[str, list[tuple[str, float]]] = {}
    for word in dict.fromkeys(asked):
        own = stem(word)
        if own in weights:
            for other, cosine in similar_words().of(word):
                found.setdefault(other, []).append((own, cosine))
    return found


class Features(msgspec.Struct, frozen=True):
    """The features of one query and one passage."""

    cosine: float  # of their vectors, -1..1; 0 without vectors
    coverage: float  # share of the query's weight whose words occur in the passage, its title or its section, 0..1
    phrases: float  # share of the query's pairs of words that are adjacent in the passage, 0..1
    similar: float  # share of the query's weight that only similar words cover, each times its cosine, 0..1


class PassageComparison(msgspec.Struct, frozen=True):
    """A query compared with a passage. Similar words cost ten times as much as the rest, so only `whole` adds them."""

    features: Features  # without similar words
    most: Features  # an upper bound: as if every similar word occurred
    text: str
    headings: Sequence[str]
    found: AbstractSet[str]  # the query's stems that the passage, its title or its section has

    def whole(self, asked: Question) -> Features:
        """Return all features, with similar words."""
        if self.most.similar == 0:
            return self.features
        near = distinct_stems(words(self.text)) & asked.similar.keys()
        for heading in self.headings:
            near |= asked.similar.keys() & _heading_stems(heading)
        best: dict[str, float] = {}
        for own, cosine in chain.from_iterable(asked.similar[other] for other in near):
            if own not in self.found and cosine > best.get(own, 0.0):
                best[own] = cosine
        return msgspec.structs.replace(self.features, similar=_share(asked, best))


def compared(asked: Question, cosine: float, text: str, headings: Sequence[str]) -> PassageComparison:
    """Return the comparison of a query with a passage; `headings` are its title and section."""
    found = occurring(asked.weights, text)
    possible = [pair for pair in asked.pairs if pair[0] in found and pair[1] in found]
    together = len(adjacent(possible, text)) if possible else 0
    for heading in headings:
        found |= asked.weights.keys() & _heading_stems(heading)
    without = Features(
        cosine=cosine,
        coverage=math.fsum(asked.weights[term] for term in found) / asked.total if found else 0.0,
        phrases=together / len(asked.pairs) if asked.pairs else 0.0,
        similar=0.0,
    )
    lacking = {own: each for own, each in asked.nearest.items() if own not in found}
    most = msgspec.structs.replace(without, similar=_share(asked, lacking)) if lacking else without
    return PassageComparison(without, most, text, headings, found)


def features(asked: Question, cosine: float, text: str, headings: Sequence[str]) -> Features:
    """Return the features; `headings` are the passage's title and section."""
    return compared(asked, cosine, text, headings).whole(asked)


def _share(asked: Question, cosines: Mapping[str, float]) -> float:
    """Return the share of the query's weight that words with these cosines cover."""
    return math.fsum(asked.weights[own] * cosine for own, cosine in cosines.items()) / asked.total if cosines else 0.0


@functools.lru_cache(_HEADINGS)
def _heading_stems(heading: str) -> frozenset[str]:
    return distinct_stems(words(heading))
