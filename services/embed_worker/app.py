"""Wiring: chunks.<generation> -> embed -> the index."""

import time
from contextlib import AsyncExitStack
from functools import partial

import structlog
from faststream.kafka import KafkaBroker

from services.embed_worker.blob_collector import BlobCollector
from services.embed_worker.cosine_scale import measure
from services.embed_worker.embed import Embed
from services.embed_worker.sweep import shorten_deleted, sweep, sweep_points, throttle
from services.embed_worker.vectors import VectorMetrics, Vectors
from shared.embedder import BUILT_IN_MODEL
from shared.log.background import repeat
from shared.log.consume import ConsumeOptions, Consumption, consume
from shared.log.dead_letters import DeadLetters
from shared.runtime.process import RunningService
from shared.runtime.resources import Resources, open_resources
from shared.runtime.stage_runner import GenerationParts
from shared.settings import Settings
from shared.state.generation_watch import LOOK_S
from shared.state.ledger import Ledger
from shared.state.statuses import dead_letter
from shared.topics import chunks_topic, readers

log = structlog.get_logger(__name__)

# After a crash the records are uncommitted, and the worker that reads them again cleans up. A sweep, which reads every
# point, is needed only after a worker that was overtaken and crashed before it noticed.
SWEEP_EVERY_S = 7 * 24 * 3600.0
SWEEP_SHARE = 0.05  # of the time: searches wait for the page that is read, and nobody waits for a sweep
COLLECT_EVERY_S = 3600.0  # whether a scan for blobs without an owner is due
SHORTEN_EVERY_S = 3600.0  # reads only what was deleted since the last time
MEASURE_EVERY_S = 30.0  # whether a model's cosines are known, or there are enough passages now
SWEEP_AGAIN_S = 5.0  # pause before the next try while the store is away


def join(broker: KafkaBroker, embed: Embed) -> Consumption:
    """Return the stage of the index's generation, subscribed to its topic; the broker must not be started yet."""
    generation = embed.index.generation.id
    topic = chunks_topic(generation)
    return consume(
        broker,
        topic,
        readers(generation)[topic],
        embed,
        stage="embed",
        on_dead=dead_letter(DeadLetters(broker, embed.blobs, embed.owner, generation), embed.failed),
        options=ConsumeOptions(before_commit=embed.index.flush),
    )


class EmbedStages:
    """The stage of each generation of a process."""

    def __init__(self, base: Resources) -> None:
        self._base = base
        self._metrics = VectorMetrics(base.registry)
        self._vectors: dict[str, Vectors] = {}
        base.watch.measure = self._measured

    async def join(self, parts: GenerationParts, stack: AsyncExitStack) -> list[Consumption]:
        """Return the stage of a generation, which is also swept until `stack` closes."""
        vectors = Vectors(parts.index, parts.embedder, self._metrics, siblings=parts.siblings, fills=parts.fills)
        self._vectors[parts.registered.id] = vectors
        keep_swept(parts, self._base.ledger, stack)
        if parts.embedder.model.name != BUILT_IN_MODEL:
            measuring = partial(measure, parts, self._base.store, self._base.watch)
            repeat(stack, measuring, MEASURE_EVERY_S, "cosines_not_measured", generation=parts.registered.id)
        repeat(stack, partial(settle, parts), LOOK_S, "settling_waits")
        embed = Embed(
            index=parts.index,
            vectors=vectors,
            bm25=parts.bm25,
            publish=parts.publish,
            statuses=parts.statuses,
            blobs=self._base.blobs,
        )
        return [join(parts.broker, embed)]

    def _measured(self) -> dict[str, dict[str, int]]:
        return {
            "embedded": {id_: vectors.embedded for id_, vectors in self._vectors.items()},
            "copied": {id_: vectors.copied for id_, vectors in self._vectors.items()},
        }


async def settle(parts: GenerationParts) -> None:
    """Settle if the generation has begun to serve. Raises Unavailable, or ConfigurationError: another release's."""
    if ended := await parts.statuses.settle_anew(parts.index):
        log.info("versions_settled", generation=parts.registered.id, versions=ended)


def keep_swept(parts: GenerationParts, ledger: Ledger, stack: AsyncExitStack) -> None:
    """Sweep now and every week, and shorten deleted entries every hour, until `stack` closes."""
    due, since = time.monotonic(), 0

    async def look() -> None:
        nonlocal due, since
        # Only the generation that serves decides what the truth still has to hold.
        serving = await parts.statuses.serves()
        if time.monotonic() >= due:
            index, publish, rest = parts.index, parts.publish, throttle(SWEEP_SHARE)
            await (sweep(index, ledger, publish, rest) if serving else sweep_points(index, publish, rest))
            due, since = time.monotonic() + SWEEP_EVERY_S, 0
        if serving:
            since = await shorten_deleted(ledger, since)

    repeat(stack, look, SHORTEN_EVERY_S, "sweep_waits", again_s=SWEEP_AGAIN_S)


def keep_collected(base: Resources, stack: AsyncExitStack) -> None:
    """Start collecting blobs without an owner; closing `stack` stops it."""
    collector = BlobCollector(
        log=base.log, store=base.store, ledger=base.ledger, blobs=base.blobs, registry=base.registry
    )
    repeat(stack, collector.collect_daily, COLLECT_EVERY_S, "blob_collection_waits", at_once=False)


async def start(settings: Settings, stack: AsyncExitStack) -> RunningService:
    """Return the worker of its own process, started. Raises as `open_resources` does."""
    base = await open_resources(settings, stack, chunker=None, attach=True, name="embed-worker")
    broker = base.log.broker("embed-worker")
    troubles = await base.begin(broker, [], stack, join=EmbedStages(base).join, embeds=True)
    keep_collected(base, stack)
    return RunningService(troubles=troubles, registry=base.registry)
