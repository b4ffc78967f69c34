"""Fuses several rankings into one. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

NO_WEIGHTS: Mapping[str, float] = {}
ChunkKey = tuple[str, int]  # document id, and the chunk's position in the document
NEIGHBOUR_WEIGHT = 0.3  # of the best neighbour's score; chosen on SciFact's train queries


def chunk_key(metadata: Mapping[str, Any]) -> ChunkKey:
    """Return the key of the chunk that has this metadata."""
    return metadata["documentId"], metadata["chunkOrder"]


def fuse(
    legs: Mapping[str, Sequence[tuple[str, float]]],
    weights: Mapping[str, float] = NO_WEIGHTS,
    chunk_keys: Mapping[str, ChunkKey] | None = None,
) -> list[str]:
    """Return every id once, the highest of the `fused_scores` first. Ties: the smaller id first.

    With `chunk_keys`, by id, good hits in neighbouring chunks move a hit up.
    """
    scores = fused_scores(legs, weights)
    ranked = scores if chunk_keys is None else _with_neighbours(scores, chunk_keys)
    return [id_ for _, id_ in sorted([(-value, id_) for id_, value in ranked.items()])]


def fused_scores(
    legs: Mapping[str, Sequence[tuple[str, float]]], weights: Mapping[str, float] = NO_WEIGHTS
) -> dict[str, float]:
    """Return the fused score by id: usually 0 to 1, and more for a hit that is far ahead.

    Distribution-based score fusion: in each leg a score s becomes (s - (m - 3d)) / 6d, with m the mean and d the
    standard deviation of the leg's scores. A leg whose scores are all equal gives 0.5. A hit that isn't in a leg gets 0
    from it, as if its score were three deviations below the mean. The fused score is the mean over the legs that found
    anything, weighted by `weights` (default 1). Formula from Mazzeschi, "Distribution-Based Score Fusion" (2023), as in
    Qdrant's DBSF, but not clipped, which keeps the lead of an outstanding hit (nDCG@10 on three collections 0.728,
    0.848, 0.609 instead of 0.729, 0.835, 0.593; docs/adr/0020-scores.md).

    `legs` contains, by name, (id, score) pairs with the best first. Scores are finite, and ids are unique in a leg.
    """
    found = {name: hits for name, hits in legs.items() if hits}
    sums: dict[str, float] = {}
    for name, hits in found.items():
        weight = weights.get(name, 1.0)
        for (id_, _), value in zip(hits, _normalised([score for _, score in hits]), strict=True):
            sums[id_] = sums.get(id_, 0.0) + weight * value
    total = sum(weights.get(name, 1.0) for name in found)
    return {id_: value / total for id_, value in sums.items()}


def _with_neighbours(scores: Mapping[str, float], chunk_keys: Mapping[str, ChunkKey]) -> dict[str, float]:
    """Return each hit's score plus a share of the best score among the two chunks on each side of it.

    The chunks beside an answer are often about the same subject (docs/adr/0020-scores.md).
    """
    by_document: dict[str, dict[int, float]] = {}
    for id_, score in scores.items():
        document, position = chunk_keys[id_]
        by_document.setdefault(document, {})[position] = score
    found = dict(scores)
    for id_, score in scores.items():
        document, position = chunk_keys[id_]
        own = by_document[document]
        if len(own) > 1:
            around = own.get  # without a loop, which would take twice as long
            before = max(around(position - 2, 0.0), around(position - 1, 0.0))
            best = max(before, around(position + 1, 0.0), around(position + 2, 0.0))
            found[id_] = score + NEIGHBOUR_WEIGHT * best
    return found


def _normalised(scores: Sequence[float]) -> list[float]:
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum([(score - mean) ** 2 for score in scores]) / len(scores))
    if deviation <= 1e-9 * max(1.0, abs(mean)):
        return [0.5] * len(scores)
    return [(score - mean + 3 * deviation) / (6 * deviation) for score in scores]
