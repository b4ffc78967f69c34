"""What every process stands on: log, store, model, blobs, and the generation that answers."""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog
from faststream.kafka import KafkaBroker
from prometheus_client import CollectorRegistry

from shared.blobs import Blobs
from shared.blobs.open import open_blobs
from shared.embedder import Embedder, Model
from shared.embedder.open import open_embedder
from shared.errors import Unavailable
from shared.log import Log, Stamping
from shared.log.backlog import Backlog
from shared.log.consume import Consumption
from shared.log.metrics import ConsumptionMetrics
from shared.log.open import open_log
from shared.runtime.loop_lag import LoopLag
from shared.runtime.probes import Detail, Troubles
from shared.settings import ConfigurationError, Settings
from shared.state import verdict
from shared.state.index import Generation, Index, followed, serving
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.store import Store
from shared.store.bm25 import Bm25, bm25_of, known_bm25
from shared.store.open import open_store
from shared.topics import EXTRACTED, Topic, pipeline_topics, readers

log_ = structlog.get_logger(__name__)  # `log` is the one that documents come by

PROBE_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Started parts; whoever laid it ends them."""

    settings: Settings
    registry: CollectorRegistry
    log: Log
    store: Store
    embedder: Embedder
    blobs: Blobs
    bm25: Bm25
    index: Index
    ledger: Ledger
    backlog: Backlog

    async def begin(
        self, broker: KafkaBroker, consumptions: Sequence[Consumption], stack: AsyncExitStack, *, embeds: bool = False
    ) -> Troubles:
        """Return what the process' readiness asks, once the stages run; `stack` ends them, what they do first.

        With `embeds`, they need the model.
        """
        stack.push_async_callback(broker.stop)
        await broker.start()
        for consumption in consumptions:
            stack.push_async_callback(consumption.stop)
        ConsumptionMetrics(consumptions, self.registry)
        watching = asyncio.create_task(self.backlog.watch())
        stack.callback(watching.cancel)

        async def troubles() -> dict[str, str | None]:
            asked = [store_troubles(self.store)]
            # A stage stands still without them; an API goes on with what it can.
            if consumptions:
                asked += [log_troubles(broker), clock_details(self.log)]
            if embeds:
                asked.append(embedder_troubles(self.embedder))
            found = {name: trouble for checks in await asyncio.gather(*asked) for name, trouble in checks.items()}
            for consumption in consumptions:
                found[consumption.name] = _said_of(consumption)
            if consumptions:
                found["backlog"] = self.backlog.trouble
            return found

        return troubles


def _said_of(consumption: Consumption) -> str | None:
    """Return why the stage stands still somewhere, else a Detail of what it tries again, else None."""
    if trouble := consumption.broken or next(iter(consumption.waiting.values()), None):
        return trouble
    doubtful = [sentence for sentences in consumption.retrying.values() for sentence in sentences]
    return Detail(f"records that are tried again: {len(doubtful)}, first: {doubtful[0]}") if doubtful else None


def wanted_generation(settings: Settings, chunker: str, model: Model) -> Generation:
    """Return the generation that the settings ask for.

    Raises:
        ConfigurationError: its chunks would have more tokens than the model takes.
    """
    if settings.chunk_unit == "tokens" and settings.chunk_size > model.max_tokens:
        raise ConfigurationError(
            f"SLUICE_CHUNK_SIZE={settings.chunk_size} tokens is more than {model.name} takes: {model.max_tokens}"
        )
    return Generation(
        chunker=chunker,
        chunk_size=settings.chunk_size,
        chunk_overlap=settings.chunk_overlap,
        chunk_unit=settings.chunk_unit,
        model=model,
        bm25=Bm25().fingerprint,
    )


def wanted_topics(settings: Settings, generation: Generation) -> tuple[Topic, ...]:
    """Return the topics of a pipeline with this generation, as the settings ask for them."""
    return pipeline_topics(generation.id, partitions=settings.partitions, replication=settings.replication or None)


async def open_resources(settings: Settings, stack: AsyncExitStack, *, chunker: str | None, attach: bool) -> Resources:
    """Return the parts, started, topics and collections made where they are missing; `stack` ends them.

    Whoever knows the `chunker` begins the first generation; anyone else waits for it. With `attach`, an embedded
    store is another process'.

    Raises:
        ConfigurationError: a setting can't work, or differs from what the index was built with.
        Unavailable: a part is away, or there is no generation yet; ask again when `stack` is closed.
    """
    if settings.keeps_data:
        settings.data.mkdir(parents=True, exist_ok=True)
    log = open_log(settings.log, settings.data)
    store = open_store(settings, attach=attach)
    embedder = open_embedder(settings.embedder, settings.openai_api_key)
    blobs = open_blobs(settings.blobs, settings.data)
    for close in (log.stop, store.close, embedder.close):
        stack.push_async_callback(close)
    await _together(log.start(), store.start(), embedder.start())

    if chunker is None:
        generation = await followed(store, embedder.model, known_bm25())
    else:
        wanted = wanted_generation(settings, chunker, embedder.model)
        generation = await serving(store, wanted, older_bm25=known_bm25())
    ledger, index = await make_missing(settings, log, store, generation)
    await index.warm()
    registry = CollectorRegistry()
    watching = asyncio.create_task(LoopLag(registry).watch())
    stack.callback(watching.cancel)
    return Resources(
        settings=settings,
        registry=registry,
        log=log,
        store=store,
        embedder=embedder,
        blobs=blobs,
        bm25=bm25_of(generation.bm25),
        index=index,
        ledger=ledger,
        backlog=Backlog(log, readers(generation.id)),
    )


async def make_missing(settings: Settings, log: Log, store: Store, generation: Generation) -> tuple[Ledger, Index]:
    """Return the generation's index and the ledger, once their collections and all topics are there.

    A collection that is made beside a log with documents was lost: then nothing is ready before they are in it again.

    Raises:
        ConfigurationError: one of them is there and unfit. Unavailable: a part is away.
    """
    ledger, index = Ledger(store), Index(store, generation)
    await log.ensure_topics(wanted_topics(settings, generation))
    # In this order: whoever wrote the first version of a document had made the collections before.
    if any((await log.end_offsets(EXTRACTED)).values()):
        there = await store.collections()
        missing = [name for name in (LEDGER, generation.heads, generation.chunks) if name not in there]
        if missing:  # said before they are made: after a crash in between, they would be there
            first = f"the log has documents, and the store had no {', '.join(missing)}"
            log_.error("store_was_empty", reason=first)
            found = verdict.Verdict(differences=len(missing), at=int(time.time() * 1000), first=first)
            await verdict.write(store, found)
    await _together(ledger.create(), index.create())
    return ledger, index


async def _together(*calls: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once; when one part fails, the others are not left running."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def store_troubles(store: Store) -> dict[str, str | None]:
    """Return the checks of the store, and of what the last `sluice verify` saw in it: None, or what is wrong."""
    try:
        async with asyncio.timeout(PROBE_S):
            await store.collections()
            return {"store": None, "index": await verdict.trouble(store)}
    except (TimeoutError, Unavailable) as error:
        return {"store": str(error) or f"the store gave no answer in {PROBE_S:g} s"}


async def log_troubles(broker: KafkaBroker) -> dict[str, str | None]:
    """Return the check of the log: None, or that it is silent."""
    return {"log": None if await broker.ping(PROBE_S) else f"the log gave no answer in {PROBE_S:g} s"}


async def clock_details(log: Log) -> dict[str, str | None]:
    """Return nothing, or a Detail: the newest record is more than an hour ahead of this machine's clock."""
    if not isinstance(log, Stamping):
        return {}
    try:
        ahead_h = await log.ahead_ms() / 3_600_000
    except Unavailable:  # `log_troubles` says so
        return {}
    if ahead_h <= 1:
        return {}
    return {
        "log_clock": Detail(f"the newest record is {ahead_h:.1f} h ahead of this clock: was it ahead, or is it behind?")
    }


async def embedder_troubles(embedder: Embedder) -> dict[str, str | None]:
    """Return the check of the embedding model's server: None, or what is wrong."""
    try:
        async with asyncio.timeout(PROBE_S):
            await embedder.ping()
    except (TimeoutError, Unavailable) as error:
        return {"embedder": str(error) or f"{embedder.model.name} gave no answer in {PROBE_S:g} s"}
    return {"embedder": None}
