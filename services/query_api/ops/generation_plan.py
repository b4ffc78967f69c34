"""Estimates what building another generation costs: texts to embed, time and disk."""

import shutil
import time
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from shared.embedder import Embedder
from shared.embedder.half_precision import precision_of
from shared.errors import Rejected
from shared.inputs.limits import TOKEN_CHARACTERS, checked_sizes
from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.runtime.resources import Resources
from shared.runtime.stage_runner import same_vectors
from shared.settings import Settings
from shared.state.generations import CODE, AsOf, Registered, Registry
from shared.state.index import Generation
from shared.store import Store
from shared.store.bm25 import current_bm25
from shared.store.edge import EdgeStore
from shared.topics import chunks_topic

COPIED_A_SECOND: Final = 500.0  # chunks copied per second, measured on two cores
TRIED: Final = 8  # texts embedded to measure the model's speed
SPARE_BYTES: Final = 200_000_000  # bytes of disk that must stay free


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings of the new generation. Missing ones come from the server's settings, or the serving generation."""

    embedder: str | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    chunk_unit: Literal["characters", "tokens"] | None = None
    limit_rate: float | None = None  # documents per second until it is built
    as_of: int | str | None = None  # offset or time: show the documents of that moment, and never serve
    dry_run: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The work and resources of a build; the figures are estimates."""

    id: str  # id of the new generation
    embedder: str
    model: str
    chunk_size: int
    chunk_overlap: int
    chunk_unit: str
    documents: int
    chunks: int
    embed: int  # texts that the model has to embed
    seconds: int
    disk_bytes: int
    free_bytes: int | None  # None: the index is on a server, whose disk is unknown
    notes: list[str]  # consequences until the old generation is dropped
    as_of: str | None = None  # moment that it will show


def chosen(name: str, wanted: BuildRequest, settings: Settings, serving: Registered | Generation) -> Any:
    """Return what is asked for by the name, else the setting if it was set, else what the serving generation has.

    A past generation takes no setting, so that it shows what was found then, and vectors can be copied.
    """
    if (given := getattr(wanted, name)) is not None:
        return given
    set_ = name in settings.model_fields_set and wanted.as_of is None
    return getattr(settings if set_ else serving, name)


def generation_of(
    wanted: BuildRequest, settings: Settings, serving: Generation, *, chunker: str, embedder: Embedder
) -> Generation:
    """Return the generation to build.

    Raises:
        Rejected: the requested chunk size is impossible.
    """
    generation = msgspec.convert(
        {
            "chunker": chunker,
            "chunkSize": chosen("chunk_size", wanted, settings, serving),
            "chunkOverlap": chosen("chunk_overlap", wanted, settings, serving),
            "chunkUnit": chosen("chunk_unit", wanted, settings, serving),
            "model": msgspec.to_builtins(embedder.model),
            "bm25": current_bm25().fingerprint,
            "vectors": precision_of(embedder.model.dimension),
        },
        Generation,
    )
    by_tokens = generation.chunk_unit == "tokens"
    scale = TOKEN_CHARACTERS if by_tokens else 1
    try:
        checked_sizes(scale * generation.chunk_size, scale * generation.chunk_overlap)
    except ValueError as error:
        raise Rejected(str(error), CODE) from None
    if by_tokens and generation.chunk_size > embedder.model.max_tokens:
        raise Rejected(
            f"chunkSize: {generation.chunk_size} tokens is more than {embedder.model.name} allows: "
            f"{embedder.model.max_tokens}",
            CODE,
        )
    return generation


_splitting: Final = attrgetter("chunker", "chunk_size", "chunk_overlap", "chunk_unit", "model.max_tokens")


def same_chunks(one: Generation, other: Generation) -> bool:
    """Return whether both generations split texts in the same way."""
    return bool(_splitting(one) == _splitting(other))


async def planned(
    generation: Generation,
    registry: Registry,
    base: Resources,
    *,
    embedder: Embedder,
    address: str,
    documents: int,
    as_of: AsOf | None,
    replaced: int,
) -> Plan:
    """Return the plan for a generation beside those of the registry. Raises Unavailable when a part is away.

    `address` is the embedder's, and `replaced` the number of versions since the moment `as_of`.
    """
    old = registry.current.generation
    had = await base.store.count(old.chunks)
    alike = same_chunks(generation, old)
    chunks = had if alike else round(had * _characters(old) / _characters(generation))
    known = [each for each in registry.generations if same_vectors(each.generation.model, generation.model)]
    copied = any(same_chunks(each.generation, generation) for each in known)
    embed = 0 if copied else chunks
    ratio = chunks / had if had else 1.0
    widened = max(1.0, generation.model.dimension / old.model.dimension)
    disk = round(ratio * widened * await index_bytes(base.store, old) + ratio * await chunk_topic_bytes(base.log, old))
    notes = ["until `sluice reindex gc`, both generations are kept up to date and take disk space"]
    if as_of is not None:
        if old.chunker == generation.chunker:
            embed = min(chunks, -(-chunks * replaced // max(documents, 1)))  # the other vectors are copied
        notes = [
            f"it shows the documents as of {as_of.label}, without what was erased since",
            "it gets no newer documents, never serves, and takes disk space until `sluice reindex gc`",
        ]
    elif not known:
        notes.append("until then, each new text is embedded twice, and two models are in use")
    a_text = await _seconds_a_text(base.store, old, embedder) if embed else 0.0
    return Plan(
        id=msgspec.structs.replace(generation, build=registry.builds + 1).id,
        embedder=address,
        model=generation.model.name,
        chunk_size=generation.chunk_size,
        chunk_overlap=generation.chunk_overlap,
        chunk_unit=generation.chunk_unit,
        documents=documents,
        chunks=chunks,
        embed=embed,
        seconds=round(a_text * embed + (chunks - embed) / COPIED_A_SECOND),
        disk_bytes=disk,
        free_bytes=shutil.disk_usage(base.settings.data).free if base.settings.keeps_data else None,
        notes=notes,
        as_of=None if as_of is None else as_of.label,
    )


def refuse_full_disk(plan: Plan) -> None:
    """Check that the disk has room for the build.

    Raises:
        Rejected: the build would fill the disk.
    """
    if plan.free_bytes is not None and plan.disk_bytes + SPARE_BYTES > plan.free_bytes:
        raise Rejected(
            f"the new generation needs about {plan.disk_bytes / 1e9:.1f} GB, and {plan.free_bytes / 1e9:.1f} GB are "
            "free: free some, or drop a retired generation with `sluice reindex gc`",
            "disk",
        )


def _characters(generation: Generation) -> int:
    return generation.chunk_size * (TOKEN_CHARACTERS if generation.chunk_unit == "tokens" else 1)


async def index_bytes(store: Store, generation: Generation) -> int:
    """Return the bytes of the generation's collections; 0: the store can't measure them."""
    if not isinstance(store, EdgeStore):
        return 0
    names = (generation.chunks, generation.heads)
    return sum(size.disk_bytes for size in await store.sizes() if size.name in names)


async def chunk_topic_bytes(log: Log, generation: Generation) -> int:
    """Return the bytes of the generation's chunk topic; 0: the log can't measure them."""
    if not isinstance(log, SqliteLog):
        return 0
    return (await log.topic_bytes()).get(chunks_topic(generation.id), 0)


async def _seconds_a_text(store: Store, generation: Generation, embedder: Embedder) -> float:
    """Return the model's seconds per text, measured with some texts of the index."""
    page = await store.scroll(generation.chunks, limit=TRIED, fields=("text",))
    texts = [point.payload["text"] for point in page.points if point.payload.get("text")]
    if not texts:
        return 0.0
    began = time.perf_counter()
    try:
        await embedder.embed_documents(texts)
    except Rejected:  # a text is too long for this model; its own chunks will be shorter
        return 0.0
    return (time.perf_counter() - began) / len(texts)
