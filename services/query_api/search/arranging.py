"""How the hits of a search are chosen for a page: varied, a few of each document, in groups. Pure."""

from collections import Counter
from collections.abc import Sequence

from services.query_api.search.results import Found
from services.query_api.search.words import stems


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
