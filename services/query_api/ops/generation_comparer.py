"""Asks two generations the same questions."""

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Final

from prometheus_client import CollectorRegistry

from services.query_api.http.monitoring import Metrics
from services.query_api.ops.generation_comparison import (
    CompareRequest,
    Comparison,
    Judged,
    PassageSpan,
    QuestionComparison,
    Side,
    compared,
    drawn,
    most_changed,
    span_of,
    summary,
)
from services.query_api.ops.generation_plan import chunk_topic_bytes, index_bytes
from services.query_api.ops.generation_service import GenerationService, GenerationStatus
from services.query_api.search.retrieval import Retriever
from shared.errors import Rejected
from shared.log import Log
from shared.runtime.generation_stages import model_of
from shared.state.generations import CODE, Registered, Registry
from shared.state.index import Index
from shared.store.bm25 import current_bm25

_WARMING: Final = "warm"  # warms up: loads model and collection before searches are timed


class GenerationComparer:
    """Compares generations by what they find, their size and their cost. Raises Unavailable when a part is away."""

    def __init__(self, generations: GenerationService, log: Log) -> None:
        self._generations = generations
        self._log = log

    async def compare(self, wanted: CompareRequest, tenant: str) -> Comparison:
        """Return how another generation differs from the serving one, for the tenant's documents.

        Raises:
            Rejected: there is no other generation, or no question.
        """
        registry = await self._generations.watch.look()
        serving, other = registry.current, _other(registry, wanted.id)
        ours, theirs = await self._retriever(serving), await self._retriever(other)
        questions = wanted.questions or await drawn(self._index(serving), tenant, wanted.sample)
        if not questions:
            raise Rejected("no document has a title or heading to ask for: give questions", CODE)
        asked = (ours, theirs)
        for retriever in asked:
            await retriever.search(tenant, _WARMING, top_k=1)
        found: list[QuestionComparison] = []
        times: list[list[float]] = [[], []]
        for number, judged in enumerate(questions):
            rankings: list[list[PassageSpan]] = [[], []]
            for side in (0, 1) if number % 2 else (1, 0):  # alternating, so that neither always finds warm caches
                rankings[side], took = await _searched(asked[side], tenant, judged, wanted.top_k)
                times[side].append(took)
            found.append(compared(judged, rankings[0], rankings[1], wanted.top_k))
        means = summary(found)
        status = await self._generations.status()
        known = {each.id: each for each in status.items}
        if other.id not in known or serving.id not in known:
            raise Rejected("the generations changed during the comparison: compare again", CODE)
        drop = None if means.ndcg is None or means.ndcg_other is None else means.ndcg - means.ndcg_other
        return Comparison(
            serving=await self._side(serving, known[serving.id], times[0], means.ndcg),
            other=await self._side(other, known[other.id], times[1], means.ndcg_other),
            top_k=wanted.top_k,
            questions=len(found),
            judged=sum(each.ndcg is not None for each in found),
            drawn=not wanted.questions,
            overlap=means.overlap,
            passages=means.passages,
            same_first=means.same_first,
            moved=means.moved,
            drop=None if drop is None else round(drop, 4),
            changed=most_changed(found),
            notes=_notes(known[other.id]),
        )

    def _index(self, registered: Registered) -> Index:
        return Index(self._generations.store, registered.generation, self._generations.gate)

    async def _retriever(self, registered: Registered) -> Retriever:
        embedder = await model_of(registered, self._generations.embedders)
        # Its searches don't count as users' searches, so they have metrics that nobody reads.
        metrics = Metrics(CollectorRegistry())
        scale = partial(self._generations.cosines, registered.id)
        return Retriever(self._index(registered), embedder, current_bm25(), metrics, scale=scale)

    async def _side(
        self, registered: Registered, status: GenerationStatus, times: Sequence[float], ndcg: float | None
    ) -> Side:
        size = await index_bytes(self._generations.store, registered.generation)
        size += await chunk_topic_bytes(self._log, registered.generation)
        took = registered.built_at - registered.began if registered.built_at and registered.began else None
        return Side(
            id=registered.id,
            model=status.model,
            chunk_size=status.chunk_size,
            chunk_unit=status.chunk_unit,
            documents=status.documents,
            chunks=status.chunks,
            failed=status.failed,
            embedded=status.embedded,
            copied=status.copied,
            disk_bytes=size or None,
            build_seconds=None if took is None else round(took / 1000),
            search_ms=round(median(times), 1),
            ndcg=ndcg,
        )


def _other(registry: Registry, id_: str | None) -> Registered:
    if id_ is not None:
        found = registry.find(id_)
        if found is None:
            raise Rejected(f"there is no generation {id_}: see `sluice reindex status`", CODE)
        if id_ == registry.serving:
            raise Rejected(f"generation {id_} serves: name another one to compare it with", CODE)
        return found
    present = [each for each in registry.fed if each.as_of is None and each.id != registry.serving]
    newest_first = sorted(present, key=lambda each: (each.served, -each.generation.build))
    if not newest_first:
        raise Rejected("there is only one generation: build another with `sluice reindex start`", CODE)
    return newest_first[0]


async def _searched(retriever: Retriever, tenant: str, judged: Judged, top_k: int) -> tuple[list[PassageSpan], float]:
    """Return what a generation finds, and the milliseconds that it took."""
    results = await retriever.search(tenant, judged.question, top_k=top_k)
    return [span_of(hit) for hit in results.hits], 1e3 * (results.embed_s + results.store_s + results.fuse_s)


def _notes(other: GenerationStatus) -> list[str]:
    notes = []
    if other.state == "building":
        notes.append(f"generation {other.id} is still being built: {other.documents} of {other.of_documents} documents")
    if other.failed:
        notes.append(f"{other.failed} records failed in generation {other.id}: see `sluice dlq ls`")
    return notes
