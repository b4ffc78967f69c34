"""How the hits of a search are chosen for a page: reordered, varied, a few of each document, in groups. Pure."""

from collections import Counter
from collections.abc import Sequence

from services.query_api.search.results import Found
from services.query_api.search.words import STOP_WORDS, stems, words

_MEANING, _WORDS = 0.7, 0.3
_EXACT_WORD = 0.1
_WHOLE_THOUGHT = 0.2
_ODD_LENGTH, _SHORTEST, _LONGEST = 0.1, 100, 2_000  # characters


def weighted(query: str, hits: Sequence[Found]) -> list[Found]:
    """Return the hits by fixed weights: 0.7 of the cosine and 0.3 of the query's weight that the passage has.

    Each word of the query that the passage has adds 0.1, a chunk of the type `semantic` 0.2; a passage shorter than 100
    or longer than 2,000 characters loses 0.1. Weights from Tu2tor, which Sluice replaces. Ties keep their order.
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
    """Return `count` hits, each the best that is left when likeness to those before it counts against it.

    Maximal marginal relevance: (1 - weight) · score - weight · likeness, with likeness the greatest share of stems in
    common with a hit already taken (Jaccard). Formula from Carbonell & Goldstein, SIGIR 1998.
    """
    left = list(enumerate(hits))
    bags = [frozenset(stems(hit.text)) for hit in hits]
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
    """Return the hits without those that come after `most` others of their document."""
    counts: Counter[str] = Counter()
    kept = []
    for hit in hits:
        document = hit.metadata["documentId"]
        counts[document] += 1
        if counts[document] <= most:
            kept.append(hit)
    return kept


def by_document(hits: Sequence[Found]) -> list[list[Found]]:
    """Return the hits of each document; documents and their hits keep the order of the search."""
    groups: dict[str, list[Found]] = {}
    for hit in hits:
        groups.setdefault(hit.metadata["documentId"], []).append(hit)
    return list(groups.values())
