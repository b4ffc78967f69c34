"""A cache of recent search results, kept for seconds; off by default.

Before a cached result is returned, the heads of its documents are read. If one was updated or deleted meanwhile, by any
process, the search runs again. docs/adr/0022-search-options.md
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from services.query_api.search.results import Results
from shared.state.index import Index

MOST_RESULTS: Final = 1_000  # about 20 MB of five passages each


class SearchKey(msgspec.Struct, frozen=True):
    """Everything that a result depends on, apart from the index."""

    generation: str
    tenant: str
    query: str
    top_k: int
    filters: bytes  # encoded, because True and 1 are equal in Python and differ in a filter
    mode: str
    reranked: bool  # by the cross-encoder
    scaled: bool  # whether the scale of the model's cosines was known


class _Kept(msgspec.Struct, frozen=True):
    results: Results
    until: float
    versions: Mapping[str, int]  # by document that was found


class ResultCache:
    """Cached results by search."""

    def __init__(self, index: Index, keep_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._keep_s = keep_s
        self._now = now
        self._kept: dict[SearchKey, _Kept] = {}
        self._changes: Counter[str] = Counter()  # number of notices, by tenant

    async def get(self, key: SearchKey) -> Results | None:
        """Return the cached result if each of its documents still has the version that was found, else None.

        Raises:
            Unavailable: the index is away.
        """
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._now() < kept.until:
            heads = await self._index.heads(list(kept.versions))
            await self._index.whole()
            current = {name: head.version for name, head in heads.items() if not head.deleted}
            if current == kept.versions:
                return msgspec.structs.replace(kept.results, embed_s=0.0, store_s=0.0, fuse_s=0.0)
        self._kept.pop(key, None)
        return None

    def changes(self, tenant: str) -> int:
        """Return a number that grows with each change of the tenant's documents. Call it before the search."""
        return self._changes[tenant]

    def put(self, key: SearchKey, results: Results, changes: int) -> None:
        """Cache the result, unless the tenant's documents have changed since `changes`: it may lack a new document."""
        if changes != self._changes[key.tenant]:
            return
        if len(self._kept) >= MOST_RESULTS:
            del self._kept[next(iter(self._kept))]  # the oldest
        versions = {hit.metadata["documentId"]: hit.metadata["version"] for hit in results.hits}
        self._kept[key] = _Kept(results, self._now() + self._keep_s, versions)

    def forget(self, tenant: str) -> None:
        """Drop the tenant's results after a change of its documents: a new document may belong to any result."""
        self._changes[tenant] += 1
        for key in [key for key in self._kept if key.tenant == tenant]:
            del self._kept[key]
