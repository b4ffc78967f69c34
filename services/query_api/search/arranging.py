"""Arranges the hits of a search: drops irrelevant ones, reorders, diversifies, limits per document, groups. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from services.query_api.search.results import Found
from shared.text.words import STOP_WORDS, stems, words

GateMode = Literal["each", "best"]
_MEANING, _WORDS = 0.7, 0.3
_EXACT_WORD = 0.1
_WHOLE_THOUGHT = 0.2
_ODD_LENGTH = 0.1
_SHORTEST, _LONGEST = 100, 2_000  # characters of a passage that loses nothing


class RelevanceGate(msgspec.Struct, frozen=True):
    """The least score, and whether each hit must reach it or only the best one."""

    min_score: float
    mode: GateMode = "each"


def usable(hits: Sequence[Found], gate: RelevanceGate) -> list[Found]:
    """Return the passages that may be used, in order.

    `each` keeps the hits that reach the least score. `best` keeps all hits if one reaches it, else none.
    """
    if gate.mode == "best":
        return list(hits) if any(hit.score >= gate.min_score for hit in hits) else []
    return [hit for hit in hits if hit.score >= gate.min_score]


def weighted(query: str, hits: Sequence[Found]) -> list[Found]:
    """Return the hits ordered by fixed weights: 0.7 × the cosine + 0.3 × the share of the query's weight in the hit.

    Each word of the query in the passage adds 0.1, the chunk type `semantic` adds 0.2, and a passage shorter than 100
    or longer than 2,000 characters loses 0.1. The weights are those of Tu2tor, which Sluice replaces. Ties keep their
    order.
    """
    asked = set(words(query)) - STOP_WORDS

    def weight(hit: Found) -> float:
        figures = hit.explanation
        value = _MEANING * (figures.cosine or 0.0) + _WORDS * figures.coverage
        value += _EXACT_WORD * len(asked.intersection(words(hit.text)))
        value += _WHOLE_THOUGHT * (hit.metadata.get("chunkType") == "semantic")
        return value - _ODD_LENGTH * (not _SHORTEST <= len(hit.text) <= _LONGEST)

    return sorted(hits, key=lambda hit: -weight(hit))


def diverse(hits: Sequence[Found], weight: float, count: int) -> list[Found]:
    """Return `count` hits; each is the best of the rest after a penalty for its similarity to those already chosen.

    Maximal marginal relevance: (1 - weight) · score - weight · similarity. The similarity is the greatest share of
    common stems (Jaccard) with a hit already chosen. Formula from Carbonell & Goldstein, SIGIR 1998.
    """
    left = list(enumerate(hits))
    bags = [set(stems(words(hit.text))) for hit in hits]
    likeness = [0.0] * len(hits)
    taken: list[Found] = []
    while left and len(taken) < count:
        best = max(left, key=lambda each: (1 - weight) * each[1].score - weight * likeness[each[0]])
        left.remove(best)
        taken.append(best[1])
        for number, _ in left:
            both = bags[number] | bags[best[0]]
            shared = len(bags[number] & bags[best[0]]) / len(both) if both else 1.0
            likeness[number] = max(likeness[number], shared)
    return taken


def of_each_document(hits: Sequence[Found], most: int) -> list[Found]:
    """Return the hits, at most `most` of each document."""
    counts: Counter[str] = Counter()
    kept = []
    for hit in hits:
        document = hit.metadata["documentId"]
        counts[document] += 1
        if counts[document] <= most:
            kept.append(hit)
    return kept


def by_document(hits: Sequence[Found]) -> list[list[Found]]:
    """Return the hits grouped by document; documents and hits keep the order of the search."""
    groups: dict[str, list[Found]] = {}
    for hit in hits:
        groups.setdefault(hit.metadata["documentId"], []).append(hit)
    return list(groups.values())
