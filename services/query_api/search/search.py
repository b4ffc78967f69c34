"""Search: two rankings of current chunks from one call to the store, fused by us. correctness.md, section 4."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from services.query_api.http.auth import needs
from services.query_api.http.metrics import Metrics
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, parse_json
from services.query_api.search.filters import filter_of
from services.query_api.search.fusion import FusedHit, LegRank, fuse
from shared.embedder import Embedder
from shared.errors import Unavailable
from shared.state.index import Index
from shared.store import Filter, Leg
from shared.store.bm25 import Bm25

Mode = Literal["hybrid", "dense", "sparse"]
TopK = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many results, 1 to 1000.")]

DEPTH = 50  # hits of each leg that are fused; 200 measured worse
PATIENCE_S = 15.0  # a model may have to be read from disk first; somebody waits, so the adapters' minute is too long
LONGEST_QUERY = 4_000  # characters; both legs read less than that of natural text
PRIVATE = frozenset({"vectorHash", "chunkHash", "origin", "textBlob", "textSize", "tenant"})


class RetrievedChunk(msgspec.Struct, frozen=True):
    """A chunk that answers the query."""

    text: str
    score: float  # 0..1
    metadata: dict[str, Any]
    legs: Mapping[str, LegRank]


class Retrieved(msgspec.Struct, frozen=True):
    """What a search found, best first, and where its time went."""

    hits: list[RetrievedChunk]
    embed_ms: float
    store_ms: float
    fuse_ms: float


def public(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chunk's metadata without what is only of use to the pipeline."""
    return {name: value for name, value in metadata.items() if name not in PRIVATE}


class Retriever:
    """Searches one index. Raises Unavailable when the store or the model is away, or silent for `patience_s`."""

    def __init__(
        self, index: Index, embedder: Embedder, bm25: Bm25, metrics: Metrics, *, patience_s: float = PATIENCE_S
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._bm25 = bm25
        self._metrics = metrics
        self._patience_s = patience_s

    async def search(
        self, tenant: str, query: str, *, top_k: int = 5, where: Filter | None = None, mode: Mode = "hybrid"
    ) -> Retrieved:
        """Return the tenant's `top_k` best current chunks; fewer only when there are no more that match."""
        with self._metrics.search_seconds.labels(mode).time():
            began = time.perf_counter()
            async with self._patience("the embedding model"):
                legs = await self._legs(query[:LONGEST_QUERY], mode)
            embedded = time.perf_counter()
            async with self._patience("the store"):
                rankings = (
                    await self._index.search(tenant, list(legs.values()), where or Filter(), limit=max(DEPTH, top_k))
                    if legs
                    else []
                )
            searched = time.perf_counter()
            payloads = {hit.id: hit.payload for hits in rankings for hit in hits}
            fused = fuse(
                {name: [(hit.id, hit.score) for hit in hits] for name, hits in zip(legs, rankings, strict=True)}
            )
            hits = [_found(each, payloads[each.id]) for each in fused[:top_k]]
            ended = time.perf_counter()
        if not hits:
            self._metrics.empty_searches.inc()
        return Retrieved(hits, _ms(embedded - began), _ms(searched - embedded), _ms(ended - searched))

    @asynccontextmanager
    async def _patience(self, part: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                yield
        except TimeoutError:
            raise Unavailable(f"{part} gave no answer within {self._patience_s:g} s", "search_timeout") from None

    async def _legs(self, query: str, mode: Mode) -> dict[str, Leg]:
        legs: dict[str, Leg] = {}
        if mode != "sparse":
            legs["dense"] = Leg(dense=await self._embedder.embed_query(query))
        if mode != "dense":
            sparse = self._bm25.query(query)
            if sparse.indices:  # stop words and punctuation alone rank nothing
                legs["sparse"] = Leg(sparse=sparse)
        return legs


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def _found(fused: FusedHit, payload: Mapping[str, Any]) -> RetrievedChunk:
    return RetrievedChunk(payload["text"], fused.score, public(payload["metadata"]), fused.legs)


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to search for, and where."""

    query: str
    top_k: TopK = 5
    filters: dict[str, Any] | str | None = None
    mode: Mode = "hybrid"
    explain: bool = False


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result."""

    text: str
    score: float
    metadata: dict[str, Any]
    explain: Mapping[str, LegRank] | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds."""

    embed_ms: float
    store_ms: float
    fuse_ms: float


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results, best first."""

    results: list[SearchHit]
    timings: Timings | None = None


def question_of(value: str, field: str) -> str:
    """Return the text to search for, or raise the 400 of a blank one."""
    if not value.strip():
        raise invalid(field, "must not be empty")
    return value


def filters_of(value: dict[str, Any] | str | None, field: str = "filters") -> Filter:
    """Return the filter of an object, or of one sent as a JSON string."""
    if isinstance(value, str):
        value = parse_json(value, field) if value.strip() else None
        if not isinstance(value, dict | None):
            raise invalid(field, "must be an object")
    return filter_of(value, field)


@post("/rag/search", operation_id="rag_search", guards=[needs("query")], status_code=200)
async def rag_search(
    data: JSONBody[SearchBody], request: ApiRequest, retriever: NamedDependency[Retriever]
) -> SearchReply:
    """Find passages of the indexed documents by meaning and by words."""
    found = await retriever.search(
        request.user.tenant,
        question_of(data.query, "query"),
        top_k=data.top_k,
        where=filters_of(data.filters),
        mode=data.mode,
    )
    return SearchReply(
        results=[
            SearchHit(text=hit.text, score=hit.score, metadata=hit.metadata, explain=hit.legs if data.explain else None)
            for hit in found.hits
        ],
        timings=Timings(embed_ms=found.embed_ms, store_ms=found.store_ms, fuse_ms=found.fuse_ms)
        if data.explain
        else None,
    )
