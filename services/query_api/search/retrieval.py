"""Retrieval: two rankings of current chunks select the candidates, which are then ordered by their own scores.

docs/correctness.md, section 4; docs/adr/0020-scores.md.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
import structlog

from services.query_api.http.circuit_breaker import CircuitBreaker
from services.query_api.http.metrics import Metrics
from services.query_api.search.calibration import WORDS, scorer_of
from services.query_api.search.candidate_chunks import EarlyLeg, decode_chunk, headings
from services.query_api.search.facets import Facets, FacetValues
from services.query_api.search.fusion import fuse
from services.query_api.search.relevance import CandidatePassage, Features, question
from services.query_api.search.result_cache import ResultCache, SearchKey
from services.query_api.search.results import Expanded, Explanation, Found, Ranks, Results
from services.query_api.search.scoring import best
from services.query_api.search.scripts import reads
from shared.answers.follow_up import LONGEST_QUESTION
from shared.embedder import Embedder, Vector
from shared.errors import Unavailable
from shared.reranker import Reranker
from shared.state.index import Index
from shared.store import Filter, Ids, Leg, StoreHit
from shared.store.bm25 import Bm25

log = structlog.get_logger(__name__)

Mode = Literal["hybrid", "dense", "sparse"]
TopK = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many results, 1 to 1000.")]
Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0, description="A score, 0 to 1.")]

UNREAD_WEIGHT = 0.1  # weight of the dense leg for a query in a script or language that the model doesn't know
DEPTH = 50  # candidates per leg
RERANKED = 50  # hits that the cross-encoder reads
PATIENCE_S = 15.0  # long enough to load a model from disk; the adapters' minute is too long for a waiting caller
MOST_VECTORS = 2_000  # query vectors cached: 3 MB, and 8 MB for the longest queries
MOST_SEEN_FIELDS = 10_000  # field names that are known to exist
ALWAYS_THERE = frozenset(f"metadata.{name}" for name in ("source", "path", "documentId", "documentType", "tags"))
PRIVATE = frozenset({"vectorHash", "chunkHash", "origin", "textBlob", "textSize", "tenant"})


def public(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chunk's metadata without the pipeline's internal fields."""
    return {name: value for name, value in metadata.items() if name not in PRIVATE}


class Retriever:
    """Searches one index. Raises Unavailable if the store or the model is away or gives no answer for `patience_s`.

    A part that fails repeatedly isn't called for a while; the error is then raised at once.
    """

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        bm25: Bm25,
        metrics: Metrics,
        *,
        patience_s: float = PATIENCE_S,
        kept: ResultCache | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._bm25 = bm25
        self._metrics = metrics
        self._patience_s = patience_s
        self._kept = kept or ResultCache(index, keep_s=0)
        self._facets = Facets(index)
        self._reranker = reranker
        self._vectors: dict[tuple[str, str], Vector] = {}  # of the latest queries
        self._seen_fields: set[tuple[str, str]] = set()  # by tenant
        self._model_breaker = CircuitBreaker("the embedding model")
        self._store_breaker = CircuitBreaker("the store")
        self._reranker_breaker = CircuitBreaker("the reranker")

    @property
    def reranks(self) -> bool:
        """Return whether a cross-encoder is configured."""
        return self._reranker is not None

    async def search(
        self,
        tenant: str,
        query: str,
        *,
        top_k: int = 5,
        where: Filter | None = None,
        mode: Mode = "hybrid",
        rerank: bool = True,
    ) -> Results:
        """Return the tenant's `top_k` best current chunks; fewer only if no more match.

        The first `DEPTH` hits of each leg are the candidates, ordered by score; ties are in the fused order. If more
        are requested, the legs' further hits follow. With `rerank`, a configured cross-encoder then orders the first
        `RERANKED` hits; if it fails, the order stays, and a warning says so.
        """
        rerank = rerank and self.reranks
        query = query[:LONGEST_QUESTION]
        where = where or Filter()
        with self._metrics.search_seconds.labels(mode).time():
            key = SearchKey(self._index.generation.id, tenant, query, top_k, msgspec.json.encode(where), mode, rerank)
            changes = self._kept.changes(tenant)
            results = await self._reused(key)
            if results is None:
                depth = max(top_k, RERANKED) if rerank else top_k
                results = await self._searched(tenant, query, depth, where, mode)
                ordered = not rerank
                if rerank:
                    results, ordered = await self._reranked(query, results, top_k)
                if ordered:
                    self._kept.put(key, results, changes)
        if not results.hits:
            self._metrics.empty_searches.inc()
        return results

    async def _reused(self, key: SearchKey) -> Results | None:
        if not self._kept.is_on:
            return None
        async with self._patience("the store", self._store_breaker):
            return await self._kept.get(key)

    async def _searched(self, tenant: str, query: str, top_k: int, where: Filter, mode: Mode) -> Results:
        began = time.perf_counter()
        limit, vector = max(DEPTH, top_k), None
        early = EarlyLeg(self._index, self._bm25)
        try:
            if mode != "sparse":
                async with self._patience("the embedding model", self._model_breaker):
                    if mode == "hybrid" and (tenant, query) not in self._vectors and not self._store_breaker.is_open:
                        model = self._embedder.model.name
                        early.start(tenant, query, where, limit=limit, compared=DEPTH, model=model)
                    vector = await self._vector(tenant, query)
            embedded = time.perf_counter()
            if early.begun is None:
                early.stop()
            async with self._patience("the store", self._store_breaker):
                finding = self._candidates(tenant, query, vector, where, early, limit=limit, words=mode != "dense")
                if unsure := self._unsure(tenant, where):
                    found, warnings = await asyncio.gather(finding, self._warnings(tenant, unsure))
                else:  # two tasks less
                    found, warnings = await finding, []
        finally:
            early.stop()
        searched = time.perf_counter()
        hits = self._scored(query, found, top_k, early)
        ended = time.perf_counter()
        return Results(
            hits=hits,
            warnings=warnings,
            embed_ms=_ms(embedded - began),
            store_ms=_ms(searched - embedded),
            fuse_ms=_ms(ended - searched),
        )

    async def _reranked(self, query: str, results: Results, top_k: int) -> tuple[Results, bool]:
        """Return the first `top_k` results in the cross-encoder's order, and True. If it fails, keep the order; False.

        The cross-encoder's scores go into the explanations: a hit's own score stays comparable between searches.
        """
        assert self._reranker is not None
        began = time.perf_counter()
        read, rest = results.hits[:RERANKED], results.hits[RERANKED:]
        try:
            with self._reranker_breaker.guarded():
                scores = await self._reranker.scores(query, [hit.text for hit in read]) if read else []
        except Unavailable as error:
            log.warning("not_reranked", reason=error.sentence)
            warnings = [*results.warnings, f"rerank: {error.sentence}; the results are in their plain order"]
            spent = _ms(time.perf_counter() - began)
            return msgspec.structs.replace(
                results, hits=results.hits[:top_k], warnings=warnings, rerank_ms=spent
            ), False
        ordered = [
            msgspec.structs.replace(hit, explanation=msgspec.structs.replace(hit.explanation, reranked=score))
            for score, hit in sorted(zip(scores, read, strict=True), key=lambda each: -each[0])
        ]
        hits = [*ordered, *rest][:top_k]
        return msgspec.structs.replace(results, hits=hits, rerank_ms=_ms(time.perf_counter() - began)), True

    async def _vector(self, tenant: str, query: str) -> Vector:
        """Return the query's vector. It is cached per tenant, because paging, filtering and chats repeat queries."""
        key = (tenant, query)
        vector = self._vectors.pop(key, None)
        if vector is None:
            vector = await self._embedder.embed_query(query)
        self._vectors[key] = vector  # moves it to the end; the one unused for longest is dropped first
        if len(self._vectors) > MOST_VECTORS:
            del self._vectors[next(iter(self._vectors))]
        return vector

    async def expanded(self, hits: Sequence[Found], neighbours: int) -> list[Expanded]:
        """Return each hit joined with so many chunks before and after it, of the same version."""
        return await asyncio.gather(*(self._expanded(hit, neighbours) for hit in hits))

    async def facets(self, tenant: str, names: Sequence[str], where: Filter) -> tuple[FacetValues, list[str]]:
        """Return the values of these fields among the documents that match, with the number of documents; and warnings.

        Raises:
            Problem: 400, a name is not a field's name.
        """
        if not names:
            return {}, []
        async with self._patience("the store", self._store_breaker):
            return await self._facets.of(tenant, names, where)

    async def _expanded(self, hit: Found, neighbours: int) -> Expanded:
        order, version = hit.metadata["chunkOrder"], hit.metadata["version"]
        first = max(0, order - neighbours)
        async with self._patience("the store", self._store_breaker):
            chunks = await self._index.chunks_page(
                hit.metadata["documentId"], version, start=first, limit=order + neighbours + 1 - first
            )
        found = [Expanded(chunk["text"], chunk["metadata"]["start"], chunk["metadata"]["end"]) for chunk in chunks]
        own = Expanded(hit.text, hit.metadata["start"], hit.metadata["end"])
        return joined(found if own in found else [own])  # without it, the document changed meanwhile

    @asynccontextmanager
    async def _patience(self, part: str, breaker: CircuitBreaker) -> AsyncIterator[None]:
        with breaker.guarded():
            try:
                async with asyncio.timeout(self._patience_s):
                    yield
            except TimeoutError:
                raise Unavailable(f"{part} gave no answer within {self._patience_s:g} s", "search_timeout") from None

    async def _candidates(
        self,
        tenant: str,
        query: str,
        vector: Vector | None,
        where: Filter,
        early: EarlyLeg,
        *,
        limit: int,
        words: bool,
    ) -> "_Candidates":
        """Return the hits of both legs, with the cosine of every hit if there is a query vector."""
        legs: dict[str, Leg] = {}
        if vector is not None:
            legs["dense"] = Leg(dense=vector)
        if words and (sparse := early.sparse or self._bm25.query(query)).indices:  # empty for stop words, punctuation
            legs["sparse"] = Leg(sparse=sparse)
        if early.begun is not None and vector is not None:
            found = await self._index.finish(early.begun, vector)
        else:
            found = await self._index.search(tenant, list(legs.values()), where, limit=limit) if legs else []
        cosines = {hit.id: hit.cosine or 0.0 for hits in found for hit in hits}
        return _Candidates(dict(zip(legs, found, strict=True)), None if vector is None else cosines)

    def _unsure(self, tenant: str, where: Filter) -> list[str]:
        """Return the fields of the filter that no document of the tenant was seen to have."""
        fields = {condition.field for condition in (*where.must, *where.must_not) if not isinstance(condition, Ids)}
        return sorted(field for field in fields - ALWAYS_THERE if (tenant, field) not in self._seen_fields)

    async def _warnings(self, tenant: str, unsure: Sequence[str]) -> list[str]:
        """Return a warning for each of the fields that no document of the tenant has; it is usually misspelt."""
        there = await asyncio.gather(*(self._index.has_field(tenant, field) for field in unsure))
        if len(self._seen_fields) > MOST_SEEN_FIELDS:
            self._seen_fields.clear()
        self._seen_fields.update((tenant, field) for field, found in zip(unsure, there, strict=True) if found)
        return [
            f"filters: no document has the field {field.removeprefix('metadata.')!r}"
            for field, found in zip(unsure, there, strict=True)
            if not found
        ]

    def _scored(self, query: str, candidates: "_Candidates", top_k: int, early: EarlyLeg) -> list[Found]:
        """Return the first `top_k` hits: the candidates by score, then the legs' further hits by score."""
        asked = early.asked or question(query)
        cosines = candidates.cosines
        model = self._embedder.model.name
        is_read = reads(model, query) if early.is_read is None else early.is_read
        by_words = cosines is None or not is_read
        scorer = scorer_of(WORDS if by_words else model)
        weights = {"dense": UNREAD_WEIGHT} if by_words else {}
        encoded = {hit.id: hit.encoded for hits in candidates.rankings.values() for hit in hits}
        # A payload that isn't the same object was read again, because the point may have changed.
        known = {id_: each for id_, each in early.known.items() if encoded.get(id_) is each.encoded}
        chunks = {id_: known[id_].chunk if id_ in known else decode_chunk(payload) for id_, payload in encoded.items()}
        legs = {name: [(hit.id, hit.score) for hit in hits] for name, hits in candidates.rankings.items()}
        chunk_keys = {id_: (chunk.metadata.document_id, chunk.metadata.chunk_order) for id_, chunk in chunks.items()}
        first = fuse({name: hits[:DEPTH] for name, hits in legs.items()}, weights, chunk_keys)
        chosen = frozenset(first)
        lacking = max(0, top_k - len(first))
        further = [id_ for id_ in fuse(legs, weights) if id_ not in chosen][:lacking] if lacking else []
        found: list[tuple[float, str, Features]] = []
        for group in (first, further):
            passages = [
                CandidatePassage(
                    0.0 if cosines is None else cosines[id_],
                    chunks[id_].text,
                    known[id_].headings if id_ in known else headings(chunks[id_]),
                    known[id_].words if id_ in known else None,
                )
                for id_ in group
            ]
            ordered = best(asked, scorer, passages, top_k - len(found))
            found += [(score, group[index], figures) for score, index, figures in ordered]
        numbers = dict(zip((*first, *further), itertools.count(1), strict=False))
        ranked = {
            name: dict(zip([id_ for id_, _ in hits], enumerate([score for _, score in hits], 1), strict=True))
            for name, hits in legs.items()
        }
        return [
            Found(
                text=chunks[id_].text,
                score=score,
                metadata=public(_metadata.decode(encoded[id_]).metadata),
                explanation=_explanation(
                    figures,
                    numbers[id_],
                    {
                        name: hits[id_]
                        for name, hits in ranked.items()
                        if id_ in hits and (id_ not in chosen or hits[id_][0] <= DEPTH)
                    },
                    by_words=cosines is None,
                ),
            )
            for score, id_, figures in found
        ]


class _ShownChunk(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]


_metadata = msgspec.msgpack.Decoder(_ShownChunk)


def _explanation(
    figures: Features, fused: int, ranked: Mapping[str, tuple[int, float]], *, by_words: bool
) -> Explanation:
    """Return the explanation of a hit; `ranked` are its rank in each leg that found it, and the leg's score."""
    dense, sparse = ranked.get("dense"), ranked.get("sparse")
    return Explanation(
        cosine=None if by_words else figures.cosine,
        bm25=None if sparse is None else sparse[1],
        ranks=Ranks(dense=None if dense is None else dense[0], sparse=None if sparse is None else sparse[0]),
        fused=fused,
        coverage=figures.coverage,
    )


def joined(chunks: Sequence[Expanded]) -> Expanded:
    """Return neighbouring chunks as one passage. Only white space, which chunks leave out, is between them."""
    text = chunks[0].text
    for before, chunk in pairwise(chunks):
        gap = chunk.start - before.end
        text += ("" if gap <= 0 else " " if gap == 1 else "\n\n") + chunk.text
    return Expanded(text, chunks[0].start, chunks[-1].end)


class _Candidates(msgspec.Struct, frozen=True):
    """The legs' hits by the leg's name, and the cosine of every hit; None without a query vector."""

    rankings: Mapping[str, list[StoreHit]]
    cosines: Mapping[str, float] | None


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)
