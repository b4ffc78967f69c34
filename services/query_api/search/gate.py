"""The relevance gate: which passages may be used for an answer. Pure."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

GateMode = Literal["each", "best"]


class Scored(Protocol):
    """Anything with a score, such as a hit or a passage."""

    @property
    def score(self) -> float:
        """Return the score, 0..1."""
        ...


S = TypeVar("S", bound=Scored)


class RelevanceGate(msgspec.Struct, frozen=True):
    """The least score, and whether each hit must reach it or only the best one."""

    min_score: float
    mode: GateMode = "each"


EVERYTHING = RelevanceGate(0.0)


def usable(hits: Sequence[S], gate: RelevanceGate) -> list[S]:
    """Return the passages that may be used, in order.

    `each` keeps the hits that reach the least score. `best` keeps all hits if one reaches it, else none.
    """
    if gate.mode == "best":
        return list(hits) if any(hit.score >= gate.min_score for hit in hits) else []
    return [hit for hit in hits if hit.score >= gate.min_score]
