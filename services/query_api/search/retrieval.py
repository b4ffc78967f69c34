"""Retrieval: a query passes through named steps, and gives the best current chunks of one index.

    embed -> rank -> join -> fuse -> score -> rerank

The store ranks all current chunks by the query's vector and by its words. The first of each ranking are joined as the
candidates, fused into one order, and then ordered by their own scores. docs/correctness.md, section 4;
docs/adr/0020-scores.md.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import structlog

from services.query_api.http.circuit_breaker import CircuitBreaker
from services.query_api.http.monitoring import Metrics
from services.query_api.http.problems import MOST_NAMED, did_you_mean
from services.query_api.search.candidates import NO_WEIGHTS, Candidate, distinct, fuse, join
from services.query_api.search.facets import FacetValues, facet_values
from services.query_api.search.filters import FIELDS
from services.query_api.search.relevance import WORDS, best, question, scorer_of
from services.query_api.search.results import Expanded, Found, Results, Timings, found_chunk, joined, public
from services.query_api.search.word_frequencies import reads
from shared import tracing
from shared.answers.follow_up import LONGEST_QUESTION
from shared.embedder import BUILT_IN_MODEL, Embedder, Vector
from shared.errors import Unavailable
from shared.fair_queue import FairTurns
from shared.reranker import Reranker
from shared.state.generations import CosineScale
from shared.state.index import Head, Index
from shared.store import Filter, Ids, Leg, Match, StoreHit
from shared.store.bm25 import Bm25

_DOCUMENT: Final = "metadata.documentId"

Mode = Literal["hybrid", "dense", "sparse"]

DEPTH = 50  # candidates per leg


class Query(NamedTuple):
    """What is searched for, and where."""

    tenant: str
    text: str
    where: Filter
    mode: Mode
    top_k: int
    limit: int  # hits that each leg is asked for
    model: str  # name of the embedding model
    scale: CosineScale | None  # of its cosines


log = structlog.get_logger(__name__)

TopK = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many results, 1 to 1000.")]
ScoredText = tuple[str, dict[str, Any], float]  # with its metadata
Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0, description="A score, 0 to 1.")]

UNREAD = {"dense": 0.1}  # weights of the legs for a query in a script or language that the model doesn't know
RERANKED = 50  # hits that the cross-encoder reads
PATIENCE_S = 15.0  # long enough to load a model from disk; the adapters' minute is too long for a waiting caller
MOST_VECTORS = 2_000  # query vectors cached: 3 MB, and 8 MB for the longest queries
MOST_SEEN_FIELDS = 10_000  # field names that are known to exist
ALWAYS_THERE = frozenset(f"metadata.{name}" for name in ("source", "path", "documentId", "documentType", "tags"))


@dataclass
class Retriever:
    """Searches one index. Raises Unavailable if the store or the model is away or gives no answer for `patience_s`.

    A part that fails repeatedly isn't called for a while; the error is then raised at once.
    """

    index: Index
    embedder: Embedder
    bm25: Bm25
    metrics: Metrics
    _: KW_ONLY
    scale: Callable[[], CosineScale | None] = lambda: None  # that of the model's cosines, as soon as it is known
    patience_s: float = PATIENCE_S
    reranker: Reranker | None = None

    def __post_init__(self) -> None:
        self._vectors: dict[tuple[str, str], Vector] = {}  # of the latest queries
        self._seen_fields: set[tuple[str, str]] = set()  # by tenant
        self._model_breaker = CircuitBreaker("the embedding model")
        self._store_breaker = CircuitBreaker("the store")
        self._reranker_breaker = CircuitBreaker("the reranker")
        self._counting = FairTurns(1)  # facets, which may read 50,000 passages

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
        reranker = self.reranker if rerank else None
        depth = top_k if reranker is None else max(top_k, RERANKED)
        searched = Query(
            tenant,
            query[:LONGEST_QUESTION],
            where or Filter(),
            mode,
            top_k=depth,
            limit=max(DEPTH, depth),
            model=self.embedder.model.name,
            scale=self.scale(),
        )
        with tracing.step("search"), self.metrics.search_seconds.labels(mode).time():
            results = await self._search(searched)
            if reranker is not None:
                results = await self._rerank(reranker, searched.text, results, top_k)
        if not results.hits:
            self.metrics.empty_searches.inc()
        return results

    async def _search(self, query: Query) -> Results:
        """Return the results in the order of their scores."""
        began = time.perf_counter()
        vector = await self._embed(query)
        embedded = time.perf_counter()
        async with self._patience("the store", self._store_breaker):
            conditions = (*query.where.must, *query.where.must_not)
            fields = {each.field for each in conditions if not isinstance(each, Ids)} - ALWAYS_THERE
            # Those that no document of the tenant was seen to have.
            if unsure := sorted(field for field in fields if (query.tenant, field) not in self._seen_fields):
                ranked, warned = self._rank(query, vector), self._warnings(query.tenant, unsure)
                rankings, warnings = await asyncio.gather(ranked, warned)
            else:  # two tasks less
                rankings, warnings = await self._rank(query, vector), []
        searched = time.perf_counter()
        by_words = vector is None
        hits = [found_chunk(each, by_words=by_words) for each in order(query, rankings, by_words=by_words)]
        if conditions and not by_words and not warnings:
            warnings = await self.unmatched(query.tenant, query.where, {hit.metadata["documentId"] for hit in hits})
        times = (began, embedded, searched, time.perf_counter())
        embed_ms, store_ms, fuse_ms = (round(1e3 * (end - start), 3) for start, end in pairwise(times))
        timings = Timings(embed_ms=embed_ms, store_ms=store_ms, fuse_ms=fuse_ms)
        return Results(hits=hits, warnings=warnings, timings=timings)

    async def _embed(self, query: Query) -> Vector | None:
        """Return the query's vector; None in a search by words only.

        Vectors are cached per tenant, because paging, filtering and chats repeat queries.
        """
        if query.mode == "sparse":
            return None
        key = (query.tenant, query.text)
        async with self._patience("the embedding model", self._model_breaker):
            vector = self._vectors.pop(key, None)
            if vector is None:
                with tracing.step("embed"):
                    vector = await self.embedder.embed_query(query.text)
        self._vectors[key] = vector  # moves it to the end; the one unused for longest is dropped first
        if len(self._vectors) > MOST_VECTORS:
            del self._vectors[next(iter(self._vectors))]
        return vector

    async def _rank(self, query: Query, vector: Vector | None) -> dict[str, list[StoreHit]]:
        """Return the hits of each leg by the leg's name, best first; with a vector, each with its cosine."""
        legs: dict[str, Leg] = {}
        if vector is not None:
            legs["dense"] = Leg(dense=vector)
        if query.mode != "dense":
            terms = self.bm25.query(query.text, foreign=not reads(BUILT_IN_MODEL, query.text))
            if terms.indices:  # not of stop words alone
                legs["sparse"] = Leg(sparse=terms)
        if not legs:
            return {}
        hits = await self.index.search(query.tenant, list(legs.values()), query.where, limit=query.limit)
        return dict(zip(legs, hits, strict=True))

    async def _rerank(self, reranker: Reranker, query: str, results: Results, top_k: int) -> Results:
        """Return the first `top_k` results in the cross-encoder's order; if it fails, in theirs, with a warning.

        The cross-encoder's scores go into the explanations: a hit's own score stays comparable between searches.
        """
        began = time.perf_counter()
        read, rest = results.hits[:RERANKED], results.hits[RERANKED:]
        warnings = results.warnings
        try:
            with self._reranker_breaker.guarded():
                scores = await reranker.scores(query, [hit.shown for hit in read]) if read else []
        except Unavailable as error:
            log.warning("not_reranked", reason=error.sentence)
            warnings = [*warnings, f"rerank: {error.sentence}; the results are in their plain order"]
        else:
            read = [
                msgspec.structs.replace(hit, explanation=msgspec.structs.replace(hit.explanation, reranked=score))
                for score, hit in sorted(zip(scores, read, strict=True), key=lambda each: -each[0])
            ]
        spent = round(1e3 * (time.perf_counter() - began), 3)
        timings = msgspec.structs.replace(results.timings, rerank_ms=spent)
        return msgspec.structs.replace(results, hits=[*read, *rest][:top_k], warnings=warnings, timings=timings)

    async def documents(self, tenant: str, where: Filter, most: int) -> list[Head]:
        """Return the heads of at most `most` of the tenant's documents; `where` is as for `Index.metadata_page`."""
        async with self._patience("the store", self._store_breaker):
            found, _ = await self.index.metadata_page(tenant, where, firsts=True, after=None, limit=most)
            ids = [id_ for id_, _ in found]
            heads = await self.index.heads(ids)
        return [heads[id_] for id_ in ids if id_ in heads]

    async def chunks(self, head: Head, start: int, limit: int) -> list[ScoredText]:
        """Return the document's chunks in reading order, each with the score 1: the caller chose them."""
        async with self._patience("the store", self._store_breaker):
            found = await self.index.chunks_page(head.document_id, head.version, start=start, limit=limit)
        return [(chunk["text"], public(chunk["metadata"]), 1.0) for chunk in found]

    async def facets(self, tenant: str, fields: Mapping[str, str], where: Filter) -> tuple[FacetValues, list[str]]:
        """Return the values of `fields_of` a request, with the number of matching documents; and warnings."""
        # What waits for its tenant's own others is no failure of the store.
        async with self._counting.turn(tenant), self._patience("the store", self._store_breaker):
            return await facet_values(self.index, tenant, fields, where)

    async def expanded(self, hit: Found, neighbours: int) -> Expanded:
        """Return the hit joined with so many chunks before and after it, of the same version."""
        order, version = hit.metadata["chunkOrder"], hit.metadata["version"]
        first = max(0, order - neighbours)
        async with self._patience("the store", self._store_breaker):
            chunks = await self.index.chunks_page(
                hit.metadata["documentId"], version, start=first, limit=order + neighbours + 1 - first
            )
        found = [Expanded(chunk["text"], chunk["metadata"]["start"], chunk["metadata"]["end"]) for chunk in chunks]
        own = Expanded(hit.text, hit.metadata["start"], hit.metadata["end"])
        return joined(found if own in found else [own])  # without it, the document changed meanwhile

    @asynccontextmanager
    async def _patience(self, part: str, breaker: CircuitBreaker) -> AsyncIterator[None]:
        with breaker.guarded():
            try:
                async with asyncio.timeout(self.patience_s):
                    yield
            except TimeoutError:
                raise Unavailable(f"{part} gave no answer within {self.patience_s:g} s", "search_timeout") from None

    async def _warnings(self, tenant: str, unsure: Sequence[str]) -> list[str]:
        """Return a warning for each of the fields that no document of the tenant has; it is usually misspelt."""
        there = await asyncio.gather(*(self.index.has_field(tenant, field) for field in unsure))
        if len(self._seen_fields) > MOST_SEEN_FIELDS:
            self._seen_fields.clear()
        self._seen_fields.update((tenant, field) for field, found in zip(unsure, there, strict=True) if found)
        lost = [field.removeprefix("metadata.") for field, found in zip(unsure, there, strict=True) if not found]
        return [f"filters: no document has the field {name!r}{did_you_mean(name, FIELDS)}" for name in lost]

    async def unmatched(self, tenant: str, where: Filter, found: AbstractSet[str]) -> list[str]:
        """Return a warning for each document that the filters name and there isn't, or if other filters exclude all."""
        named = {
            str(value)
            for each in where.must
            if isinstance(each, Match) and each.field == _DOCUMENT
            for value in each.any_of
        }
        if not (missing := sorted(named - found)[:MOST_NAMED]):
            return []
        known = await self.documents(tenant, of_documents(*missing), len(missing))
        there = {head.document_id for head in known}
        excluded = (
            ["filters: documentIds and the other filters have no document in common"] if there and not found else []
        )
        return excluded + [f"filters: there is no document {each[:100]!r}" for each in missing if each not in there]


def of_documents(*ids: str) -> Filter:
    """Return the filter of these documents' chunks."""
    return Filter(must=(Match(_DOCUMENT, ids),))


def order(query: Query, rankings: Mapping[str, Sequence[StoreHit]], *, by_words: bool) -> list[Candidate]:
    """Return the query's first `top_k` candidates by score, then the legs' further hits by score, without copies.

    `by_words`: the search had no vector.
    """
    unread = by_words or not reads(query.model, query.text)
    weights = UNREAD if unread else NO_WEIGHTS
    known: dict[tuple[str, ...], Candidate] = {}
    found = fuse(join({leg: hits[:DEPTH] for leg, hits in rankings.items()}), weights)
    first = distinct(found, known)
    further: list[Candidate] = []
    if query.top_k > len(first) and any(len(hits) > DEPTH for hits in rankings.values()):
        chosen = {each.id for each in found}
        others = fuse(join(rankings), weights, neighbours=False)
        further = distinct((each for each in others if each.id not in chosen), known)[: query.top_k - len(first)]
    for fused, candidate in enumerate((*first, *further), 1):
        candidate.fused = fused
    scorer = scorer_of(WORDS) if unread else scorer_of(query.model, query.scale)
    asked = question(query.text)
    best_first = best(asked, scorer, first, query.top_k)
    return best_first + best(asked, scorer, further, query.top_k - len(best_first))
