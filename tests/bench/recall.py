"""Recall: the share of the nearest vectors that an index search finds."""

from typing import Any

import qdrant_edge as qdrant

from shared.store.edge_engine import _EXACT, Engine, nearby
from tests.bench import synthetic

QUERIES, DEPTH = 100, 10
ASKED = 66  # hits of a leg


def recall(engine: Engine, chunks: int, tenant: str, source: str | None) -> float:
    """Return recall@10 against exact search, for queries drawn like the vectors."""
    [collection] = [each for name, each in engine._open.items() if name.startswith("chunks.")]
    where = {"metadata.tenant": tenant} | ({} if source is None else {"metadata.source": source})
    only = qdrant.Filter(must=[qdrant.FieldCondition(name, match=qdrant.MatchValue(v)) for name, v in where.items()])
    assert collection.description.size is not None
    near = nearby(collection.live, filtered=source is not None)
    found = there = 0
    for vector in synthetic.Library(chunks, collection.description.size).queries(QUERIES):
        query = qdrant.Query.Nearest(vector.tolist(), using="")
        exact, approximate = (_first(collection.shard, query, only, params) for params in (_EXACT, near))
        found, there = found + len(exact & approximate), there + len(exact)
    return found / there if there else 1.0


def _first(shard: Any, query: qdrant.Query, only: qdrant.Filter, params: qdrant.SearchParams) -> set[str]:
    hits = shard.query(qdrant.QueryRequest(limit=ASKED, query=query, filter=only, params=params))
    return {str(hit.id) for hit in hits[:DEPTH]}
