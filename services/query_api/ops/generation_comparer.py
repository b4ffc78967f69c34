"""Asks two generations the same questions, and compares what each finds, its size, and its cost."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Annotated, Final

import msgspec
from prometheus_client import CollectorRegistry

from services.query_api.http.monitoring import Metrics
from services.query_api.ops.generation_plan import chunk_topic_bytes, index_bytes
from services.query_api.ops.generation_service import GenerationService, GenerationStatus
from services.query_api.search.retrieval import Retriever
from shared.answers.ndcg import DEPTH, ndcg
from shared.contracts import like
from shared.errors import Rejected
from shared.runtime.resources import Resources
from shared.runtime.stage_runner import model_of
from shared.state.generations import CODE, Registered, Registry, scale_of
from shared.state.index import Index
from shared.store import EVERYTHING

MOST_QUESTIONS: Final = 500  # of one comparison
SHOWN: Final = 10  # questions that a report lists
_CHUNKS: Final = 16  # read for a question: many have no title, or one that was drawn before
_WARMING: Final = "warm"  # loads model and collection before searches are timed
Ranking = Mapping[str, str]  # path by document, best first


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and the paths or ids of the documents that answer it, where they are known."""

    question: Annotated[str, msgspec.Meta(min_length=1)]
    documents: tuple[str, ...] = ()


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which generation is compared with the one that serves, and by which questions."""

    id: str | None = None  # default: the one that was built, else the one that served before
    questions: Annotated[list[Judged], msgspec.Meta(max_length=MOST_QUESTIONS)] = []  # none: drawn from titles
    sample: Annotated[int, msgspec.Meta(ge=1, le=MOST_QUESTIONS)] = 50  # how many are drawn
    top_k: Annotated[int, msgspec.Meta(ge=1, le=100)] = DEPTH


class QuestionComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What both generations found for a question. It has nDCG only if the right documents are known."""

    question: str
    overlap: float  # share of the found documents that both generations found
    moved: float  # mean difference of the ranks of a document that both found
    first: str | None  # path of the serving generation's best document
    first_other: str | None  # path of the other generation's best document
    ndcg: float | None = None
    ndcg_other: float | None = None

    @property
    def drop(self) -> float:
        """Return by how much nDCG is lower in the other generation; 0 if it isn't known."""
        return (self.ndcg or 0.0) - (self.ndcg_other or 0.0)


class Side(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The size and cost of one of the generations."""

    id: str
    model: str
    chunk_size: int
    chunk_unit: str
    documents: int
    chunks: int
    failed: int
    embedded: int  # texts, by the processes that run now
    copied: int  # vectors, by the processes that run now
    disk_bytes: int | None  # of the collections and the chunk topic; None: neither store nor log can measure them
    build_seconds: int | None  # until it had all documents that existed when it was started; None: not measured
    search_ms: float  # median of the searches of this comparison
    ndcg: float | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The serving generation and another one; `overlap` and `moved` are means over the questions."""

    serving: Side
    other: Side
    top_k: int
    questions: int
    judged: int  # questions whose right documents are known
    overlap: float
    moved: float
    drawn: bool  # whether the questions are titles and headings; the right document is then the one that has it
    drop: float | None  # serving nDCG minus the other one's; None: nothing is judged
    changed: list[QuestionComparison]  # those that changed most, worst first
    notes: list[str]


def compared(judged: Judged, ours: Ranking, theirs: Ranking, depth: int = DEPTH) -> QuestionComparison:
    """Return how the rankings of the serving generation and of the other one differ for a question."""
    old, new = [*ours], [*theirs]
    both = [name for name in old if name in theirs]
    right, scores = set(judged.documents), dict[str, float]()
    for field, ranking in (("ndcg", ours), ("ndcg_other", theirs)) if right else ():
        scores[field] = ndcg([bool({*each} & right) for each in ranking.items()], len(right), depth)
    return QuestionComparison(
        question=judged.question,
        overlap=len(both) / max(len(old), len(new)) if old or new else 1.0,
        moved=fmean(abs(old.index(name) - new.index(name)) for name in both) if both else 0.0,
        first=next(iter(ours.values()), None),
        first_other=next(iter(theirs.values()), None),
        **scores,
    )


def most_changed(questions: Sequence[QuestionComparison]) -> list[QuestionComparison]:
    """Return the questions whose results got worse, then those whose results differ most."""
    changed = [each for each in questions if each.overlap < 1 or each.drop or each.moved]
    return sorted(changed, key=lambda each: (-each.drop, each.overlap, -each.moved))[:SHOWN]


async def drawn(index: Index, tenant: str, count: int) -> list[Judged]:
    """Return at most `count` titles and headings of the tenant's documents, each with the document that has it.

    The same index gives the same questions, so that two comparisons can be compared. Those are of chunks in the order
    of their ids, which is as good as random.
    """
    found: dict[str, Judged] = {}
    fields, limit = ("title", "sectionTitle"), _CHUNKS * count
    page, _ = await index.metadata_page(tenant, EVERYTHING, fields=fields, firsts=False, after=None, limit=limit)
    for number, (_, known) in enumerate(page):
        names = [known.get("title"), known.get("sectionTitle")]
        name = next((each for each in (names if number % 2 else names[::-1]) if each and each.strip()), None)
        if name is not None and len(found) < count:
            found.setdefault(name, Judged(question=name, documents=(known["documentId"],)))
    return [*found.values()]


async def compare(base: Resources, generations: GenerationService, wanted: CompareRequest, tenant: str) -> Comparison:
    """Return how another generation differs from the serving one, for the tenant's documents.

    Raises:
        Rejected: there is no other generation, or no question. Unavailable: a part is away.
    """
    registry = await base.watch.look()
    serving, other = registry.current, _other(registry, wanted.id)
    asked = await _retriever(base, serving), await _retriever(base, other)
    index = Index(base.store, serving.generation, base.gate)
    questions = wanted.questions or await drawn(index, tenant, wanted.sample)
    if not questions:
        raise Rejected("no document has a title or heading to ask for: give questions", CODE)
    for retriever in asked:
        await retriever.search(tenant, _WARMING, top_k=1)
    found: list[QuestionComparison] = []
    times: list[list[float]] = [[], []]
    for number, judged in enumerate(questions):
        rankings: list[Ranking] = [{}, {}]
        for side in (0, 1) if number % 2 else (1, 0):  # alternating, so that neither always finds warm caches
            rankings[side], took = await _searched(asked[side], tenant, judged, wanted.top_k)
            times[side].append(took)
        found.append(compared(judged, rankings[0], rankings[1], wanted.top_k))
    scored = [each for each in found if each.ndcg is not None]
    before, after = (
        round(fmean(getattr(each, name) for each in scored), 4) if scored else None for name in ("ndcg", "ndcg_other")
    )
    known = {each.id: each for each in (await generations.status()).items}
    if other.id not in known or serving.id not in known:
        raise Rejected("the generations changed during the comparison: compare again", CODE)
    return Comparison(
        serving=await _side(base, serving, known[serving.id], times[0], before),
        other=await _side(base, other, known[other.id], times[1], after),
        top_k=wanted.top_k,
        questions=len(found),
        judged=len(scored),
        overlap=round(fmean(each.overlap for each in found), 4),
        moved=round(fmean(each.moved for each in found), 4),
        drawn=not wanted.questions,
        drop=None if before is None or after is None else round(before - after, 4),
        changed=most_changed(found),
        notes=_notes(known[other.id]),
    )


async def _retriever(base: Resources, registered: Registered) -> Retriever:
    return Retriever(
        Index(base.store, registered.generation, base.gate),
        await model_of(registered, base.embedders),
        base.bm25,
        Metrics(CollectorRegistry()),  # that nobody reads: its searches don't count as users' searches
        scale=lambda: scale_of(base.watch.registry, registered.id),
    )


async def _side(
    base: Resources,
    registered: Registered,
    status: GenerationStatus,
    times: Sequence[float],
    ndcg: float | None,
) -> Side:
    size = await index_bytes(base.store, registered.generation)
    size += await chunk_topic_bytes(base.log, registered.generation)
    took = registered.built_at - registered.began if registered.built_at and registered.began else None
    return like(
        Side,
        status,
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


async def _searched(retriever: Retriever, tenant: str, judged: Judged, top_k: int) -> tuple[Ranking, float]:
    """Return what a generation finds, and the milliseconds that it took."""
    results = await retriever.search(tenant, judged.question, top_k=top_k)
    found = {hit.metadata["documentId"]: hit.metadata["path"] for hit in results.hits}
    times = results.timings
    return found, times.embed_ms + times.store_ms + times.fuse_ms


def _notes(other: GenerationStatus) -> list[str]:
    notes = []
    if other.state == "building":
        notes.append(f"generation {other.id} is still being built: {other.documents} of {other.of_documents} documents")
    if other.failed:
        notes.append(f"{other.failed} records failed in generation {other.id}: see `sluice dlq ls`")
    return notes
