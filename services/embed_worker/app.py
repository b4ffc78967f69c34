"""Wiring: chunks.<generation> -> embed -> the index."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import structlog
from faststream.kafka import KafkaBroker
from prometheus_client import CollectorRegistry

from services.embed_worker.apply import Apply
from services.embed_worker.blob_collector import BlobCollector, collect_for_ever
from services.embed_worker.embed import Embed
from services.embed_worker.sweep import sweep
from services.embed_worker.vectors import Vectors
from shared.blobs import BlobInventory, Blobs
from shared.embedder import Embedder
from shared.errors import Unavailable
from shared.log import Publish
from shared.log.consume import Consumption, consume
from shared.log.dead_letters import DeadLetters
from shared.log.publish import publish
from shared.runtime.memory_budget import MemoryBudget
from shared.runtime.process import RunningService
from shared.runtime.resources import Resources, open_resources
from shared.settings import Settings
from shared.state.index import Index
from shared.state.ledger import Ledger
from shared.state.statuses import Statuses, dead_letter
from shared.store.bm25 import Bm25
from shared.topics import chunks_topic, readers

log = structlog.get_logger(__name__)

SWEEP_EVERY_S = 3600.0
SWEEP_AGAIN_S = 5.0  # after the store was away


@dataclass(frozen=True, kw_only=True)
class EmbedParts:
    """The parts of the stage; their creator starts and stops them."""

    ledger: Ledger
    index: Index
    embedder: Embedder
    bm25: Bm25
    blobs: Blobs
    registry: CollectorRegistry


def parts_of(base: Resources) -> EmbedParts:
    """Return the stage's parts of the process' resources."""
    return EmbedParts(
        ledger=base.ledger,
        index=base.index,
        embedder=base.embedder,
        bm25=base.bm25,
        blobs=base.blobs,
        registry=base.registry,
    )


def join(broker: KafkaBroker, parts: EmbedParts) -> Consumption:
    """Return the stage, subscribed to its topic; the broker must not be started yet."""
    send = partial(publish, broker)
    statuses = Statuses(parts.ledger, send)
    apply = Apply(
        index=parts.index,
        vectors=Vectors(parts.index, parts.embedder, parts.registry),
        bm25=parts.bm25,
        publish=send,
        statuses=statuses,
    )
    embed = Embed(apply=apply, blobs=parts.blobs, statuses=statuses, room=MemoryBudget())
    generation = parts.index.generation.id
    topic = chunks_topic(generation)
    return consume(
        broker,
        topic,
        readers(generation)[topic],
        embed,
        stage="embed",
        on_dead=dead_letter(DeadLetters(broker, parts.blobs, embed.owner), embed.failed),
        before_commit=parts.index.flush,
    )


async def sweep_for_ever(index: Index, ledger: Ledger, publish: Publish) -> None:
    """Sweep now and every hour; retry after SWEEP_AGAIN_S while the log or the store is away."""
    while True:
        try:
            await sweep(index, ledger, publish)
        except Unavailable as error:
            log.warning("sweep_waits", reason=error.sentence)
            await asyncio.sleep(SWEEP_AGAIN_S)
        else:
            await asyncio.sleep(SWEEP_EVERY_S)


def keep_swept(index: Index, ledger: Ledger, publish: Publish, stack: AsyncExitStack) -> None:
    """Start sweeping; closing `stack` stops it."""
    sweeping = asyncio.create_task(sweep_for_ever(index, ledger, publish))
    stack.callback(sweeping.cancel)


def keep_collected(base: Resources, stack: AsyncExitStack) -> None:
    """Start collecting blobs without an owner; closing `stack` stops it."""
    assert isinstance(base.blobs, BlobInventory)  # every blob store of the settings implements it
    collector = BlobCollector(
        log=base.log, store=base.store, ledger=base.ledger, blobs=base.blobs, registry=base.registry
    )
    collecting = asyncio.create_task(collect_for_ever(collector))
    stack.callback(collecting.cancel)


async def start(settings: Settings, stack: AsyncExitStack) -> RunningService:
    """Return the worker of its own process, started. Raises as `open_resources` does."""
    base = await open_resources(settings, stack, chunker=None, attach=True)
    broker = base.log.broker("embed-worker")
    troubles = await base.begin(broker, [join(broker, parts_of(base))], stack, embeds=True)
    keep_swept(base.index, base.ledger, partial(publish, broker), stack)
    keep_collected(base, stack)
    return RunningService(troubles=troubles, registry=base.registry)
