"""Fuses the rankings of several legs into one. Pure."""

import math
from collections.abc import Mapping, Sequence

from services.query_api.search.candidates import Candidate

NO_WEIGHTS: Mapping[str, float] = {}
NEIGHBOUR_WEIGHT = 0.3  # of the best neighbour's score; chosen on SciFact's train queries


def fuse(
    candidates: Sequence[Candidate], weights: Mapping[str, float] = NO_WEIGHTS, *, neighbours: bool = True
) -> list[Candidate]:
    """Return the candidates in the order of their `fused_scores`, highest first. Ties: the smaller id first.

    With `neighbours`, good candidates in neighbouring chunks move a candidate up.
    """
    scores = fused_scores(candidates, weights)
    if neighbours:
        scores = _with_neighbours(candidates, scores)
    return [candidates[at] for _, _, at in sorted((-scores[at], each.id, at) for at, each in enumerate(candidates))]


def fused_scores(candidates: Sequence[Candidate], weights: Mapping[str, float] = NO_WEIGHTS) -> list[float]:
    """Return each candidate's fused score: usually 0 to 1, and more for one that is far ahead.

    Distribution-based score fusion: in each leg a score s becomes (s - (m - 3d)) / 6d, with m the mean and d the
    standard deviation of the leg's scores. A leg whose scores are all equal gives 0.5. A candidate that isn't in a leg
    gets 0 from it, as if its score were three deviations below the mean. The fused score is the mean over the legs that
    found anything, weighted by `weights` (default 1). Formula from Mazzeschi, "Distribution-Based Score Fusion" (2023),
    as in Qdrant's DBSF, but not clipped, which keeps the lead of an outstanding hit (nDCG@10 on three collections
    0.728, 0.848, 0.609 instead of 0.729, 0.835, 0.593; docs/adr/0020-scores.md).
    """
    sums = [0.0] * len(candidates)
    total = 0.0
    for leg in sorted({leg for each in candidates for leg in each.ranks}):
        weight = weights.get(leg, 1.0)
        total += weight
        found = [(at, each.ranks[leg].score) for at, each in enumerate(candidates) if leg in each.ranks]
        for (at, _), value in zip(found, _normalised([score for _, score in found]), strict=True):
            sums[at] += weight * value
    return [value / total for value in sums]


def _with_neighbours(candidates: Sequence[Candidate], scores: Sequence[float]) -> list[float]:
    """Return each candidate's score plus a share of the best score among the two chunks on each side of it.

    The chunks beside an answer are often about the same subject (docs/adr/0020-scores.md).
    """
    by_document: dict[str, dict[int, float]] = {}
    for each, score in zip(candidates, scores, strict=True):
        by_document.setdefault(each.document_id, {})[each.chunk_order] = score
    found = []
    for each, score in zip(candidates, scores, strict=True):
        position, own, best = each.chunk_order, by_document[each.document_id], 0.0
        if len(own) > 1:
            around = own.get  # without a loop, which would take twice as long
            before = max(around(position - 2, 0.0), around(position - 1, 0.0))
            best = max(before, around(position + 1, 0.0), around(position + 2, 0.0))
        found.append(score + NEIGHBOUR_WEIGHT * best)
    return found


def _normalised(scores: Sequence[float]) -> list[float]:
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum([(score - mean) ** 2 for score in scores]) / len(scores))
    if deviation <= 1e-9 * max(1.0, abs(mean)):
        return [0.5] * len(scores)
    return [(score - mean + 3 * deviation) / (6 * deviation) for score in scores]
