"""Statistics: documents by status and source, chunks, the rate of submissions, and the backlog of each stage."""

import asyncio
import os
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from litestar.params import FromQuery
from prometheus_client import CollectorRegistry

from services.query_api.documents.document_routes import STATUSES
from services.query_api.documents.listing import of_tenant
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import get
from shared.contracts import like
from shared.errors import Unavailable
from shared.log.groups import unread
from shared.runtime.resources import Resources
from shared.state.index import Generation, Head
from shared.store import Condition, Filter, Match, Range, each_page
from shared.times import iso
from shared.topics import readers

MILLION = 1_000_000


class SourceSize(msgspec.Struct, frozen=True):
    """What a source has in the index: documents that answer, their chunks, and bytes of their texts."""

    source: str
    documents: int
    chunks: int
    bytes: int


class TenantSize(msgspec.Struct, frozen=True):
    """What a tenant has in the index, and each of its sources, the largest first."""

    tenant: str
    documents: int
    chunks: int
    bytes: int
    sources: list[SourceSize]


class ModelWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The work of the embedding model in this process since it started."""

    embedded: int  # texts
    copied: int  # vectors copied from equal texts, without a call
    calls: int
    tokens: int  # exact for the built-in model; estimated for a server, rather too high
    cost: float | None = None  # in the currency of SLUICE_EMBEDDING_PRICE; None: no price is set


async def tenant_sizes(pages: AsyncIterable[Iterable[Head]]) -> list[TenantSize]:
    """Return what the documents hold by tenant and source, the largest first."""
    sums = defaultdict[tuple[str, str], list[int]](lambda: [0, 0, 0])  # documents, chunks and bytes
    async for page in pages:
        for each in page:
            if not each.deleted:
                own = sums[each.tenant, each.source]
                own[:] = own[0] + 1, own[1] + each.chunk_count, own[2] + each.text_size
    by_tenant = defaultdict[str, list[SourceSize]](list)
    for (tenant, source), own in sums.items():
        by_tenant[tenant].append(SourceSize(source, *own))
    sizes = []
    for tenant, sources in by_tenant.items():
        documents, chunks, size = (
            sum(getattr(each, name) for each in sources) for name in ("documents", "chunks", "bytes")
        )
        largest_first = sorted(sources, key=lambda each: (-each.bytes, each.source))
        sizes.append(TenantSize(tenant, documents, chunks, size, largest_first))
    return sorted(sizes, key=lambda each: (-each.bytes, each.tenant))


def usage_of(registry: CollectorRegistry, price: float) -> ModelWork | None:
    """Return the model's work, at a price per million tokens; None where workers are processes of their own."""
    names = ("embedded_texts", "reused_vectors", "embedding_calls", "embedding_tokens")
    counts: Mapping[str, float | None] = {name: registry.get_sample_value(f"sluice_{name}_total") for name in names}
    if None in counts.values():
        return None
    embedded, copied, calls, tokens = (int(value or 0) for value in counts.values())
    cost = tokens * price / MILLION if price else None
    return ModelWork(embedded=embedded, copied=copied, calls=calls, tokens=tokens, cost=cost)


BUCKETS = 12
BUCKET_S = 300
LAG_S = 2.0  # time for which figures of the log are kept
DISK_S = 60.0
STAGES = ("Reading", "Chunking", "Embedding")  # what the groups of `readers` do, in the same order

T = TypeVar("T")


class SourceCount(msgspec.Struct, frozen=True):
    """The number of documents of a source, without deleted ones."""

    source: str
    documents: int


class Bucket(msgspec.Struct, frozen=True):
    """How many documents were last submitted in the period that begins at `since`, and how many of them failed."""

    since: str
    documents: int
    failed: int


class GenerationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings that the index was built with."""

    id: str
    model: str
    dimension: int
    chunk_size: int
    chunk_overlap: int
    chunk_unit: str
    chunker: str


class StageLag(msgspec.Struct, frozen=True):
    """How many records, of all tenants, a stage has yet to read; None if the log gave no answer."""

    stage: str
    topic: str
    unread: int | None


class Disk(msgspec.Struct, frozen=True):
    """The size of the data folder and of its disk, in bytes."""

    folder: int
    free: int
    total: int


class Pipeline(msgspec.Struct, frozen=True):
    """The state of the installation; only operators see it."""

    stages: list[StageLag]
    disk: Disk | None
    usage: ModelWork | None  # None: the embed workers are processes of their own, whose side ports have these counts


class Stats(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Statistics of the caller's documents."""

    documents: dict[str, int]  # by the status of their newest submission; `total` excludes deleted ones
    chunks: int
    sources: list[SourceCount]
    bucket_seconds: int
    recent: list[Bucket]
    generation: GenerationView
    tenants: list[TenantSize] | None = None  # where sizes are asked for: the caller's own; for operators, all
    pipeline: Pipeline | None = None


@dataclass
class Census:
    """Computes statistics. Raises Unavailable when the store is away."""

    base: Resources
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        settings = self.base.settings
        data = settings.data if settings.keeps_data else None
        self._stages: _Kept[list[StageLag]] = _Kept(self._read_stages, LAG_S)
        self._disk: _Kept[Disk | None] = _Kept(partial(asyncio.to_thread, _disk, data), DISK_S)

    async def of(self, tenant: str, *, pipeline: bool, sizes: bool = False) -> Stats:
        """Return the tenant's statistics; with `pipeline`, those of the installation, too.

        With `sizes`, every head is read, 256 at a time.
        """
        counts, chunks, sources, recent = await asyncio.gather(
            self.base.ledger.statuses(_of(tenant)),
            self.base.index.tenant_points(tenant),
            self.base.ledger.sources(of_tenant(tenant)),
            self._recent(tenant),
        )
        documents = {str(status): counts.get(status, 0) for status in STATUSES}
        ordered = sorted(sources.items(), key=lambda each: (-each[1], each[0]))
        whose = None if pipeline else tenant
        held = each_page(lambda after: self.base.index.heads_page(whose, after=after))
        usage = usage_of(self.base.registry, self.base.settings.embedding_price)
        return Stats(
            documents={"total": sum(documents.values()) - documents["deleted"], **documents},
            chunks=chunks,
            sources=[SourceCount(source, count) for source, count in ordered if source],
            bucket_seconds=BUCKET_S,
            recent=recent,
            generation=generation_view(self.base.index.generation),
            tenants=await tenant_sizes(held) if sizes else None,
            pipeline=Pipeline(await self._stages.get(), await self._disk.get(), usage) if pipeline else None,
        )

    async def _recent(self, tenant: str) -> list[Bucket]:
        """Return the buckets, the newest one last."""
        newest = int(self.now()) // BUCKET_S * BUCKET_S
        starts = range(newest - (BUCKETS - 1) * BUCKET_S, newest + 1, BUCKET_S)
        ranges = [Range("updatedAt", gte=start * 1000, lt=(start + BUCKET_S) * 1000) for start in starts]
        counts = await asyncio.gather(*(self.base.ledger.statuses(_of(tenant, each)) for each in ranges))
        return [
            Bucket(iso(start * 1000), sum(each.values()), each.get("failed", 0))
            for start, each in zip(starts, counts, strict=True)
        ]

    async def _read_stages(self) -> list[StageLag]:
        groups = readers(self.base.index.generation.id).items()
        waiting = await asyncio.gather(*(self._unread(group, topic) for topic, group in groups))
        return [StageLag(stage, topic, count) for stage, (topic, _), count in zip(STAGES, groups, waiting, strict=True)]

    async def _unread(self, group: str, topic: str) -> int | None:
        try:
            return await unread(self.base.log, group, topic)
        except Unavailable:
            return None


class _Kept(Generic[T]):
    """A value that is read again only when it is too old; concurrent callers share one read."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._value: tuple[float, T] | None = None

    async def get(self) -> T:
        async with self._lock:
            if self._value is None or time.monotonic() - self._value[0] > self._seconds:
                value = await self._read()
                self._value = time.monotonic(), value  # once it is there: those who waited for the lock share it
            return self._value[1]


def _of(tenant: str, *conditions: Condition) -> Filter:
    return Filter(must=(Match("tenant", (tenant,)), *conditions))


def generation_view(generation: Generation) -> GenerationView:
    """Return the generation's settings."""
    model = generation.model
    return like(GenerationView, generation, model=model.name, dimension=model.dimension)


def _disk(folder: Path | None) -> Disk | None:
    if folder is None:
        return None
    size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                size += (Path(root) / name).stat().st_blocks * 512  # blocks in use: the store's files are sparse
            except OSError:  # deleted meanwhile
                continue
    usage = shutil.disk_usage(folder)
    return Disk(size, usage.free, usage.total)


@get(
    "/rag/stats",
    role=("query", "operator"),
    line="count documents by state and source, chunks, and how fast they arrive",
)
async def rag_stats(request: ApiRequest, sizes: FromQuery[bool] = False) -> Stats:
    """Count documents by status and source, and recent submissions. Operators also see the backlog of each stage.

    `sizes=true` adds documents, chunks and bytes of text by source: the caller's, or every tenant's for operators.
    """
    return await request.part(Census).of(request.user.tenant, pipeline=request.user.may("operator"), sizes=sizes)
