"""The results of a search."""

from typing import Any

import msgspec


class Ranks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hit's ranks in the two legs, from 1; None in a leg that didn't find it."""

    dense: int | None = None
    sparse: int | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures behind a hit's score and rank."""

    cosine: float | None = None  # of query and passage; None in a search without vectors
    bm25: float | None = None  # includes the terms' rarity in this index; None if the sparse leg didn't find it
    ranks: Ranks
    fused: int  # rank in the fused ranking, from 1
    coverage: float  # share of the query's weight whose words occur in the passage, 0..1
    query: str | None = None  # the related question that found the hit, where a search is expanded
    reranked: float | None = None  # the cross-encoder's score, on its own scale; None: it didn't read the passage


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that matches the query."""

    text: str
    score: float  # 0..1: probability that the passage answers the query; comparable between searches
    metadata: dict[str, Any]
    explanation: Explanation


class Expanded(msgspec.Struct, frozen=True):
    """A passage joined with its neighbours."""

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
    rerank_ms: float | None = None  # None: no cross-encoder was asked
