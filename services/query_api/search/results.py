"""What a search finds."""

from typing import Any

import msgspec


class Ranks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hit's ranks in the two legs, from 1; a leg that didn't find it has none."""

    dense: int | None = None
    sparse: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures behind a hit's score and rank."""

    cosine: float | None = None  # of query and passage; None where words alone were asked
    bm25: float | None = None  # with the terms' rarity in this index; None where the words' leg didn't find it
    ranks: Ranks
    fused: int  # rank in the fused ranking, from 1
    coverage: float  # share of the query's weight that the passage has, 0..1


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that answers the query."""

    text: str
    score: float  # 0..1: how likely the passage answers the query; comparable between searches
    metadata: dict[str, Any]
    explanation: Explanation


class Expanded(msgspec.Struct, frozen=True):
    """A passage together with its neighbours."""

    text: str
    start: int  # offset in the document's text
    end: int


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of a search, best first, with warnings and timings."""

    hits: list[Found]
    warnings: list[str] = []
    embed_ms: float = 0.0
    store_ms: float = 0.0
    fuse_ms: float = 0.0
