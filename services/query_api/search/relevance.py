"""Computes the features of a query and a passage; a hit's score is computed from them. Pure.

The features depend only on the query and the passage: not on the other hits of the search (ranks, fused scores) and not
on the rest of the index (BM25's term rarity). So a threshold means the same everywhere
(docs/adr/0020-scores.md).
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple

import msgspec

from services.query_api.search.similar_words import similar_words
from services.query_api.search.words import adjacent, distinct_stems, occurring, stem, stems, weight, words

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


class Features(NamedTuple):
    """The features of one query and one passage."""

    cosine: float  # of their vectors, -1..1; 0 without vectors
    coverage: float  # share of the query's weight whose words occur in the passage, its title or its section, 0..1
    phrases: float  # share of the query's pairs of words that are adjacent in the passage, 0..1
    similar: float  # share of the query's weight that only similar words cover, each times its cosine, 0..1


class WordFeatures(NamedTuple):
    """The features of a passage's words, as far as they are known before adjacent and similar words are looked for.

    Passages with the same words of the query share them.
    """

    coverage: float
    phrases: float  # the most that adjacent words could give
    similar: float  # the most that similar words could give


class CandidatePassage(NamedTuple):
    """What a passage is compared by."""

    cosine: float  # of its vector and the query's; 0 without vectors
    text: str
    headings: Sequence[str]  # its title and section
    words: WordFeatures | None = None  # if they are known


class Comparer:
    """Compares one query with passages. Passages that have the same words of the query share the sums."""

    def __init__(self, asked: Question) -> None:
        self._asked = asked
        self._stems = tuple(asked.weights)
        self._bits = {each: 1 << number for number, each in enumerate(self._stems)}
        self._known: dict[tuple[int, int], WordFeatures] = {}  # by words of the text, and words of the headings

    def compared(self, passages: Sequence[CandidatePassage]) -> list[WordFeatures]:
        """Return the features of each passage's words."""
        fresh = iter(self._compared([each for each in passages if each.words is None]))
        return [each.words or next(fresh) for each in passages]

    def _compared(self, passages: Sequence[CandidatePassage]) -> list[WordFeatures]:
        texts = [passage.text for passage in passages]
        headings = ["\n".join(passage.headings) for passage in passages]
        occurs = occurring(self._stems, texts + headings)
        known = self._known
        return [
            known.get(each) or self._words_of(*each)
            for each in zip(occurs[: len(texts)], occurs[len(texts) :], strict=True)
        ]

    def whole(self, passage: CandidatePassage, of: WordFeatures) -> Features:
        """Return all features of the passage; `of` are those of its words."""
        asked = self._asked
        together = adjacent(asked.pairs, passage.text) if of.phrases else ()
        return Features(
            passage.cosine,
            of.coverage,
            len(together) / len(asked.pairs) if together else 0.0,
            _similar_share(asked, passage, distinct_stems(words(passage.text))) if of.similar else 0.0,
        )

    def _words_of(self, in_text: int, in_headings: int) -> WordFeatures:
        asked, bits, found = self._asked, self._bits, in_text | in_headings
        lacking = {own: cosine for own, cosine in asked.nearest.items() if not found & bits[own]}
        pairs = sum(bool(in_text & bits[a]) and bool(in_text & bits[b]) for a, b in asked.pairs)
        self._known[in_text, in_headings] = of = WordFeatures(
            coverage=_coverage(asked, [each for each, bit in bits.items() if found & bit]),
            phrases=pairs / len(asked.pairs) if pairs else 0.0,
            similar=_share(asked, lacking),
        )
        return of


def features(asked: Question, passage: CandidatePassage) -> Features:
    """Return the features of one passage, by their definition."""
    own = words(passage.text)
    there = distinct_stems(own).union(*map(_heading_stems, passage.headings))
    together = asked.pairs.intersection(pairwise(stems(own)))
    return Features(
        cosine=passage.cosine,
        coverage=_coverage(asked, asked.weights.keys() & there),
        phrases=len(together) / len(asked.pairs) if together else 0.0,
        similar=_similar_share(asked, passage, distinct_stems(own)),
    )


def _similar_share(asked: Question, passage: CandidatePassage, own: frozenset[str]) -> float:
    """Return the share of the query's weight that only similar words cover; `own` are the stems of the text."""
    there = own.union(*map(_heading_stems, passage.headings))
    best: dict[str, float] = {}
    for wanted, cosine in chain.from_iterable(asked.similar[other] for other in asked.similar.keys() & there):
        if wanted not in there and cosine > best.get(wanted, 0.0):
            best[wanted] = cosine
    return _share(asked, best)


def _coverage(asked: Question, found: Iterable[str]) -> float:
    """Return the share of the query's weight that these of its stems have."""
    weights = [asked.weights[each] for each in found]
    return math.fsum(weights) / asked.total if weights else 0.0


def _share(asked: Question, cosines: Mapping[str, float]) -> float:
    """Return the share of the query's weight that words with these cosines cover."""
    return math.fsum(asked.weights[own] * cosine for own, cosine in cosines.items()) / asked.total if cosines else 0.0


@functools.lru_cache(_HEADINGS)
def _heading_stems(heading: str) -> frozenset[str]:
    return distinct_stems(words(heading))
