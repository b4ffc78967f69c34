"""What every process stands on: log, store, model, blobs, and the generation that answers."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
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
from shared.log.publish import publish
from shared.runtime.growth import Growth
from shared.runtime.loop_lag import LoopLag
from shared.runtime.probes import Detail, Troubles
from shared.settings import ConfigurationError, Settings
from shared.state import pairing, verdict
from shared.state.index import Generation, Index, followed, registered_generation, serving
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.state.pairing import BothSides, PairingDecision, by_hand, decide, store_address
from shared.state.rebuild_gate import CODE, GRACE_S, Rebuild, RebuildGate, last_rebuild, write_rebuild
from shared.store import Store
from shared.store.bm25 import Bm25, bm25_of, known_bm25
from shared.store.open import open_store
from shared.topics import Topic, pipeline_topics, readers

log_ = structlog.get_logger(__name__)  # `log` is the one that documents come by

PROBE_S = 2.0
CHECKPOINT_S = 10.0
LOOK_S = 1.0  # between looks whether the index is whole; a third of how long one holds


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
    gate: RebuildGate
    grace_s: float = GRACE_S  # between the note of a rebuild and the first empty collection

    async def begin(
        self, broker: KafkaBroker, consumptions: Sequence[Consumption], stack: AsyncExitStack, *, embeds: bool = False
    ) -> Troubles:
        """Return what the process' readiness asks, once the stages run; `stack` ends them, what they do first.

        With `embeds`, they need the model.
        """
        stack.push_async_callback(broker.stop)
        await broker.start()
        if consumptions:
            stack.push_async_callback(self._keep_checkpoints(broker))
        for consumption in consumptions:
            stack.push_async_callback(consumption.stop)
        ConsumptionMetrics(consumptions, self.registry)
        for watching in (self.backlog.watch(), watch_gate(self.gate)):
            stack.callback(asyncio.create_task(watching).cancel)

        async def troubles() -> dict[str, str | None]:
            asked = [store_troubles(self.store, self.gate)]
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

    def _keep_checkpoints(self, broker: KafkaBroker) -> Callable[[], Coroutine[Any, Any, None]]:
        """Write on both sides, again and again, how far the log is; return what does so once more at the end."""
        address = store_address(self.settings)

        async def keep() -> None:
            with suppress(Unavailable):  # the next one says more
                await pairing.keep_checkpoint(self.log, self.store, partial(publish, broker), address)

        async def keep_for_ever() -> None:
            while True:
                await asyncio.sleep(CHECKPOINT_S)
                await keep()

        keeping = asyncio.create_task(keep_for_ever())

        async def end() -> None:
            keeping.cancel()
            await asyncio.wait([keeping])
            await keep()

        return end

    async def restore(self) -> None:
        """Make what was lost of the store while it was in use; its contents come from a rebuild.

        Raises:
            ConfigurationError: another store is there now. Unavailable: a part is away.
        """
        await make_missing(
            self.settings, self.log, self.store, self.index.generation, gate=self.gate, grace_s=self.grace_s
        )
        if self.index.extractor_noted is not None:
            await self.index.note_extractor(self.index.extractor_noted)


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

    gate = RebuildGate(store)
    grace_s = GRACE_S if attach else 0.0  # else nobody but this process reads the store
    if chunker is None:
        generation = await followed(store, embedder.model, known_bm25())
    else:
        generation = wanted_generation(settings, chunker, embedder.model)
    ledger, index = await make_missing(
        settings, log, store, generation, gate=gate, grace_s=grace_s, rebuilds=chunker is not None
    )
    await index.warm()
    registry = CollectorRegistry()
    for watch in (LoopLag(registry).watch(), Growth(registry, log, store).watch()):
        watching = asyncio.create_task(watch)
        stack.callback(watching.cancel)
    return Resources(
        settings=settings,
        registry=registry,
        log=log,
        store=store,
        embedder=embedder,
        blobs=blobs,
        bm25=bm25_of(index.generation.bm25),
        index=index,
        ledger=ledger,
        backlog=Backlog(log, readers(index.generation.id)),
        gate=gate,
        grace_s=grace_s,
    )


async def make_missing(
    settings: Settings,
    log: Log,
    store: Store,
    wanted: Generation,
    *,
    gate: RebuildGate | None = None,
    grace_s: float = GRACE_S,
    rebuilds: bool = True,
    judge: Callable[[BothSides], PairingDecision] = decide,
) -> tuple[Ledger, Index]:
    """Return the ledger and the index of the generation that answers, once their collections and all topics are there.

    Where the store knows no generation, `wanted` answers. A collection that was lost beside a log with documents is
    noted as such first, and then made after `grace_s`: whoever reads it empty asks `gate`, and learns of the rebuild.

    Raises:
        ConfigurationError: log and store don't belong together, or a part is there and unfit.
        Unavailable: a part is away; or the index is lost, and this process doesn't rebuild it (`rebuilds`).
    """
    generation = await registered_generation(store) or wanted
    await log.ensure_topics(wanted_topics(settings, generation))
    seen = await look_at(settings, log, store, generation)
    decision = judge(seen)
    if decision.lost and not rebuilds:
        raise Unavailable("the index is lost; an ingest worker rebuilds it from the log", CODE)
    await pairing.create(store)
    if decision.lost:
        log_.error("index_lost", lost=decision.lost)
        await note_rebuild(store, decision.lost)
    await _pair(log, store, seen, decision.pairing)
    gate = gate or RebuildGate(store)
    gate.log_id = decision.pairing.log_id
    await gate.look()
    if decision.lost:
        await asyncio.sleep(grace_s)
    generation = await serving(store, wanted, older_bm25=known_bm25()) if rebuilds else generation
    ledger, index = Ledger(store, gate), Index(store, generation, gate)
    await _together(ledger.create(), index.create())
    return ledger, index


async def look_at(settings: Settings, log: Log, store: Store, generation: Generation) -> BothSides:
    """Return what log and store say of each other. Raises Unavailable when one is away."""
    there = await store.collections()
    wanted = (LEDGER, generation.heads, generation.chunks)
    counts = await asyncio.gather(*(store.count(name) for name in wanted if name in there))
    on_log, in_store, ends = await asyncio.gather(
        pairing.on_log(log), pairing.in_store(store), pairing.extracted_ends(log)
    )
    return BothSides(
        on_log=on_log,
        in_store=in_store,
        address=store_address(settings),
        ends=ends,
        missing=tuple(name for name in wanted if name not in there),
        emptied=not any(counts),
        beside=pairing.beside(settings),
    )


async def note_rebuild(store: Store, lost: Sequence[str]) -> Rebuild:
    """Return the rebuild that is to bring back those collections, and what an unfinished one was to.

    Raises Unavailable when the store is away, or another process has noted one meanwhile.
    """
    known = await last_rebuild(store)
    unfinished = known if known is not None and known.phase != "done" else None
    all_lost = tuple(dict.fromkeys((*(unfinished.lost if unfinished else ()), *lost)))
    ledger = LEDGER in lost or (unfinished is not None and unfinished.phase == "ledger")
    wanted = Rebuild(
        number=known.number + 1 if known is not None else 1,
        rev=0,
        lost=all_lost,
        phase="ledger" if ledger else "points",
        began=int(time.time() * 1000),
    )
    standing = await write_rebuild(store, wanted, known=known)
    if standing is None or standing.phase == "done":
        raise Unavailable("the index was lost again while its rebuild was noted", CODE)
    return standing


async def pair_by_hand(settings: Settings, log: Log, store: Store, wanted: Generation) -> None:
    """Take log and store as belonging together, whatever they say; nothing is ready before they are compared.

    Raises:
        ConfigurationError: a part is there and unfit. Unavailable: a part is away.
    """
    said: list[BothSides] = []

    def judge(seen: BothSides) -> PairingDecision:
        said.append(seen)
        return by_hand(seen)

    await make_missing(settings, log, store, wanted, grace_s=0.0, judge=judge)
    if not said[0].emptied:
        first = "log and store were paired by hand (sluice init --pair), and have not been compared since"
        await verdict.write(store, verdict.Verdict(differences=1, at=int(time.time() * 1000), first=first))


async def _pair(log: Log, store: Store, seen: BothSides, wanted: pairing.Pairing) -> None:
    """Write on both sides, the store's first, what they don't say yet."""
    known, standing = seen.in_store, seen.in_store
    if known is None or _said(known, seen.address) != _said(wanted, seen.address):
        standing = await pairing.tell_store(store, wanted, known=known)
    assert standing is not None
    standing = msgspec.structs.replace(standing, address=seen.address)
    if seen.on_log is not None and _said(seen.on_log, seen.on_log.address) == _said(standing, seen.address):
        return
    broker = log.broker("pairing")
    await broker.start()
    try:
        await pairing.tell_log(partial(publish, broker), standing)
    finally:
        await broker.stop()


def _said(known: pairing.Pairing, address: str) -> pairing.Pairing:
    """Return what the log's copy has of a pairing."""
    return msgspec.structs.replace(known, ends={}, address=address)


async def watch_gate(gate: RebuildGate) -> None:
    """Look again and again whether the index is whole, so that nobody has to wait for the answer."""
    while True:
        with suppress(Unavailable):  # readiness says that the store is away
            await gate.look()
        await asyncio.sleep(LOOK_S)


async def _together(*calls: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once; when one part fails, the others are not left running."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def store_troubles(store: Store, gate: RebuildGate | None = None) -> dict[str, str | None]:
    """Return the checks of the store, and of what stands in it: None, or what is wrong.

    The index is wrong while it is rebuilt, and where the last `sluice verify` saw a difference.
    """
    try:
        async with asyncio.timeout(PROBE_S):
            await store.collections()
            if gate is not None:
                await gate.look()
            rebuilding = gate.trouble if gate is not None else None
            return {"store": None, "index": rebuilding or await verdict.trouble(store)}
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
