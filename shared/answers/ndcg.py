"""nDCG: how far up the right results of a ranking stand."""

import math
from collections.abc import Sequence

DEPTH = 10  # results that are judged


def ndcg(ranked: Sequence[bool], right: int, depth: int = DEPTH) -> float:
    """Return nDCG at `depth` with gains of 0 and 1, where `right` documents would be best: 0..1."""
    gained = sum(1 / math.log2(rank + 1) for rank, each in enumerate(ranked[:depth], start=1) if each)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(right, depth) + 1))
    return min(1.0, gained / ideal) if ideal else 0.0
