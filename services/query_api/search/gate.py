"""The relevance gate: which passages may be used for an answer. Pure."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

GateMode = Literal["each", "best"]


class Scored(Protocol):
    """Something with a score, as a hit or a passage has one."""

    @property
    def score(self) -> float:
        """Return the score, 0..1."""
        ...


S = TypeVar("S", bound=Scored)


class RelevanceGate(msgspec.Struct, frozen=True):
    """The least score, and whose it must be: each hit's own, or the best hit's for all of them."""

    min_score: float
    mode: GateMode = "each"


EVERYTHING = RelevanceGate(0.0)


def usable(hits: Sequence[S], gate: RelevanceGate) -> list[S]:
    """Return the passages that may be used, in their order.

    `each` keeps the hits that reach the least score. `best` keeps all of them where one reaches it, else none.
    """
    if gate.mode == "best":
        return list(hits) if any(hit.score >= gate.min_score for hit in hits) else []
    return [hit for hit in hits if hit.score >= gate.min_score]
