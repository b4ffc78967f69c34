"""The resources that every process opens: log, store, model, blobs, and the generation that answers."""

import asyncio
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
from shared.embedder.half_precision import precision_of
from shared.embedder.open import EmbedderPool
from shared.errors import Unavailable
from shared.log import Log
from shared.log.background import repeat
from shared.log.consume import Consumption
from shared.log.metrics import ConsumptionMetrics
from shared.log.open import open_log
from shared.log.publish import publish, sending
from shared.log.retention_risk import Backlog
from shared.log.sqlite import SqliteLog
from shared.runtime.growth import EVERY_S, Growth
from shared.runtime.in_force import model_in_force, not_in_force
from shared.runtime.loop_lag import LoopLag
from shared.runtime.probes import Detail, Troubles
from shared.runtime.stage_runner import GenerationStages, Join, trouble_of
from shared.settings import ConfigurationError, Settings
from shared.state import pairing, verification_result
from shared.state.callbacks import Callbacks
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import (
    Registry,
    change,
    first_registry,
    moved,
    no_generation,
    only_serving,
    registry_of,
    serving,
    succeeded,
)
from shared.state.index import Generation, Index, ServingIndex
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Ledger
from shared.state.pairing import BothSides, PairingDecision, by_hand, decide, store_address
from shared.state.rebuild_gate import CODE, GRACE_S, LOST, Rebuild, RebuildGate, last_rebuild, write_rebuild
from shared.state.sessions import Sessions
from shared.store import Store
from shared.store.bm25 import Bm25, current_bm25
from shared.store.open import open_store
from shared.times import now_ms
from shared.topics import AUDIT, DAY, Topic, check_tenant_topics, pipeline_topics, readers

log_ = structlog.get_logger(__name__)  # `log` is the documents' log here

PROBE_S = 2.0
CHECKPOINT_S = 10.0
BACKLOG_S = 10.0
LOOK_S = 1.0  # between checks whether the index is complete; a third of LEASE_S


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The started parts; the stack given to `open_resources` closes them."""

    settings: Settings
    registry: CollectorRegistry
    log: Log
    store: Store
    embedder: Embedder  # of the generation that served at the start; so is `bm25`
    embedders: EmbedderPool
    watch: GenerationWatch
    chunker: str | None  # version of this process's; None: it has none
    not_in_force: tuple[str, ...]  # what differs from what the index was built with, for operators
    blobs: Blobs
    bm25: Bm25
    index: ServingIndex
    ledger: Ledger
    backlog: Backlog
    gate: RebuildGate
    grace_s: float = GRACE_S  # between recording a rebuild and creating the first collection

    async def begin(
        self,
        broker: KafkaBroker,
        consumptions: Sequence[Consumption],
        stack: AsyncExitStack,
        *,
        join: Join | None = None,
        embeds: bool = False,
    ) -> Troubles:
        """Start the stages; return the process' readiness checks. Closing `stack` stops the stages.

        `consumptions` serve all generations; `join` makes those of one. With `embeds`, the checks include the
        embedding model.
        """
        stack.push_async_callback(broker.stop)
        await broker.start()
        works = bool(consumptions) or join is not None
        if works:
            keep = self._checkpoints(broker)
            stack.push_async_callback(keep)  # once more, when the stages have ended
            repeat(stack, keep, CHECKPOINT_S, at_once=False)
        for consumption in consumptions:
            stack.push_async_callback(consumption.stop)
        stages = GenerationStages(
            log=self.log,
            store=self.store,
            ledger=self.ledger,
            gate=self.gate,
            embedders=self.embedders,
            watch=self.watch,
            topics=partial(wanted_topics, self.settings),
            join=join,
        )
        stack.push_async_callback(stages.stop)
        await stages.start()
        ConsumptionMetrics(lambda: [*consumptions, *stages.serving()], self.registry)
        self.watch.listen(self._follow)
        stack.push_async_callback(self.watch.leave)
        repeat(stack, self.backlog.measure, BACKLOG_S)
        repeat(stack, self.gate.look, LOOK_S)  # so that requests needn't wait for it
        repeat(stack, self.watch.turn, 0.0)

        async def troubles() -> dict[str, str | None]:
            asked = [store_troubles(self.store, self.gate)]
            # A stage can't work without them; an API can still do some of its work.
            if works:
                asked += [log_troubles(self.log), clock_details(self.log)]
            if embeds:
                asked.append(embedder_troubles(self.embedder))
            found = {name: trouble for checks in await asyncio.gather(*asked) for name, trouble in checks.items()}
            found |= {each.name: trouble_of(each) for each in consumptions} | stages.troubles()
            if works:
                late = self.backlog.elsewhere
                found["backlog"] = self.backlog.trouble or (None if late is None else Detail(late))
            return found | self._settings_details()

        return troubles

    def _settings_details(self) -> dict[str, str | None]:
        known, told = self.watch.registry, self.not_in_force
        if known is not None:  # another generation may have taken over since the start
            told = not_in_force(self.settings, known, self.chunker)
        return {"settings": Detail("; ".join(told))} if told else {}

    async def _follow(self, registry: Registry) -> None:
        """Make the parts that outlive a switch use the generation that serves now."""
        if registry.serving != self.index.generation.id:
            self.index.serve(registry.current.generation)
            log_.info("generation_serves", generation=registry.serving)
        beside = (each for each in registry.fed if each.id != registry.serving)
        shadows = [dict(list(readers(each.id).items())[1:]) for each in beside]  # submissions have one reader
        self.backlog.follow(readers(registry.serving), shadows)

    def _checkpoints(self, broker: KafkaBroker) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return what writes a checkpoint to log and store, unless one is away: the next one covers it."""
        address, send = store_address(self.settings), partial(publish, broker)
        written: Registry | None = None

        async def keep() -> None:
            nonlocal written
            with suppress(Unavailable):
                await pairing.keep_checkpoint(self.log, self.store, send, address)
                with suppress(ConfigurationError):  # another release writes the registry now, and its copy
                    written = await pairing.keep_copy(self.store, send, written)

        return keep

    async def restore(self) -> None:
        """Do what a start does with what was lost while the store was in use.

        Raises:
            ConfigurationError: it is another store now. Unavailable: a part is away.
        """
        seen = (self.watch.registry, await pairing.registered(self.store, self.log))
        known = max((each for each in seen if each is not None), key=lambda each: each.rev, default=None)
        await make_missing(
            self.settings,
            self.log,
            self.store,
            only_serving(known) if known is not None else first_registry(self.index.generation, self.settings.embedder),
            gate=self.gate,
            grace_s=self.grace_s,
        )
        if self.index.code_noted is not None:
            await self.index.note_code(self.index.code_noted)


def wanted_generation(settings: Settings, chunker: str, model: Model) -> Generation:
    """Return the generation of the settings.

    Raises:
        ConfigurationError: its chunks would have more tokens than the model accepts.
    """
    if settings.chunk_unit == "tokens" and settings.chunk_size > model.max_tokens:
        raise ConfigurationError(
            f"SLUICE_CHUNK_SIZE={settings.chunk_size} tokens is more than {model.name} allows: {model.max_tokens}"
        )
    return Generation(
        chunker=chunker,
        chunk_size=settings.chunk_size,
        chunk_overlap=settings.chunk_overlap,
        chunk_unit=settings.chunk_unit,
        model=model,
        bm25=current_bm25().fingerprint,
        vectors=precision_of(model.dimension),
    )


async def known_registry(settings: Settings, store: Store, log: Log, embedders: EmbedderPool, chunker: str) -> Registry:
    """Return the registry of store or log; of a new index, the one that a start would make.

    Raises:
        ConfigurationError: a setting can't work, or another release's registry can't be read.
        Unavailable: a part is away.
    """
    if (known := await pairing.registered(store, log)) is not None:
        return known
    model = (await embedders.get(settings.embedder)).model
    return first_registry(wanted_generation(settings, chunker, model), settings.embedder)


def wanted_topics(settings: Settings, generation: Generation) -> tuple[Topic, ...]:
    """Return the topics of a pipeline with this generation, configured by the settings."""
    replication, foreign = settings.replication or None, settings.topics_of_tenants
    check_tenant_topics(foreign)
    own = pipeline_topics(
        generation.id,
        partitions=settings.partitions,
        replication=replication,
        submitted_retention_ms=int(settings.keep_originals * DAY),
        audit_retention_ms=settings.audit_retention_ms,
        compaction_lag_ms=int(settings.compaction_lag * DAY),
    )
    return (*own, *(Topic(name=name, partitions=settings.partitions, replication=replication) for name in foreign))


async def open_resources(
    settings: Settings, stack: AsyncExitStack, *, chunker: str | None, attach: bool, name: str = "sluice"
) -> Resources:
    """Return the started parts, after creating missing topics and collections. Closing `stack` closes them.

    A process with a `chunker` creates the first generation; the others wait for it. With `attach`, an embedded
    store is opened through the process that owns it. `name` is what the process is called.

    Raises:
        ConfigurationError: a setting can't work, or another release's index can't be read.
        Unavailable: a part is away, or there is no generation yet; close `stack` and call again.
    """
    if settings.keeps_data:
        settings.data.mkdir(parents=True, exist_ok=True)
    log = open_log(settings.log, settings.data, settings.log_password)
    store = open_store(settings, attach=attach)
    embedders = EmbedderPool(settings.openai_api_key)
    blobs = open_blobs(settings.blobs, settings.data)
    for close in (log.stop, store.close, embedders.close):
        stack.push_async_callback(close)
    await _together(log.start(), store.start(), _preloaded(embedders, settings.embedder))

    gate = RebuildGate(store)
    grace_s = GRACE_S if attach else 0.0  # without attach, only this process reads the store
    known = await pairing.registered(store, log)
    if known is not None:
        embedder, address = await model_in_force(known.current, settings, embedders)
    elif chunker is not None:
        embedder, address = await embedders.get(settings.embedder), settings.embedder
        known = first_registry(wanted_generation(settings, chunker, embedder.model), address)
    else:
        raise no_generation()
    ledger, index = await make_missing(
        settings, log, store, known, gate=gate, grace_s=grace_s, rebuilds=chunker is not None
    )
    written = await change(store, lambda known: moved(known, index.generation.id, address))
    await embedders.keep_only(frozenset({address, *(each.embedder for each in written.generations)}))
    watch = GenerationWatch(store, name)
    if not attach:
        await watch.alone()
    await index.warm()
    registry = CollectorRegistry()
    LoopLag(registry)
    repeat(stack, Growth(registry, log, store).look, EVERY_S, "growth_not_measured")
    return Resources(
        settings=settings,
        registry=registry,
        log=log,
        store=store,
        embedder=embedder,
        embedders=embedders,
        watch=watch,
        chunker=chunker,
        not_in_force=not_in_force(settings, written, chunker),
        blobs=blobs,
        bm25=current_bm25(),
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
    wanted: Registry,
    *,
    gate: RebuildGate | None = None,
    grace_s: float = GRACE_S,
    rebuilds: bool = True,
    judge: Callable[[BothSides], PairingDecision] = decide,
) -> tuple[Ledger, ServingIndex]:
    """Create missing topics and collections; return the ledger and the index of the generation that answers.

    If the store has no registry, `wanted` becomes its registry. If a collection was lost while the log has documents,
    that is noted, and what replaces it is created `grace_s` later: readers that find it empty learn that from `gate`.
    In place of an index that was lost, in whole or in part, a new generation serves.

    Raises:
        ConfigurationError: log and store don't belong together, or an existing part is unfit.
        Unavailable: a part is away; or the index is lost, and this process doesn't rebuild it (`rebuilds`).
    """
    registry = await registry_of(store) or wanted
    generation = registry.current.generation
    await log.ensure_topics(wanted_topics(settings, generation))
    seen = await look_at(settings, log, store, generation)
    decision = judge(seen)
    if decision.lost and not rebuilds:
        raise Unavailable(LOST, CODE)
    await pairing.create(store)
    known = await last_rebuild(store)
    if decision.lost:
        log_.error("index_lost", lost=decision.lost)
        known = await note_rebuild(store, decision.lost)
    await _pair(log, store, seen, decision.pairing)
    gate = gate or RebuildGate(store)
    gate.log_id = decision.pairing.log_id
    await gate.look()
    if decision.lost:
        await asyncio.sleep(grace_s)
        if not set((await look_at(settings, log, store, generation)).missing) <= set(decision.lost):
            raise Unavailable(LOST, CODE)  # what was lost meanwhile has to be noted, too, before it is made again
        known = await last_rebuild(store)
    if rebuilds:
        if known is not None and known.takes(generation.heads, generation.chunks):
            # Also where somebody has created an empty collection since.
            registry = await _succession(log, store, registry, generation.id)
            log_.warning("index_succeeded", generation=registry.serving, lost=generation.id)
        else:
            registry = await serving(store, wanted)
        generation = registry.current.generation
        await log.ensure_topics(wanted_topics(settings, generation))
    ledger, index = Ledger(store, gate), ServingIndex(store, generation, gate)
    left = (Index(store, each.generation).create() for each in registry.generations if each.lost)
    await _together(*left, ledger.create(), index.create(), Callbacks(store).create(), Sessions(store).create())
    return ledger, index


async def _succession(log: Log, store: Store, found: Registry, lost: str) -> Registry:
    """Return the registry after a new generation began to serve in place of `lost`, by this process or another."""
    succeed = partial(succeeded, lost=lost, now=now_ms())
    wanted = msgspec.structs.replace(succeed(found), rev=found.rev + 1)
    # The log's copy first: if the store is lost again at once, the number of the generation isn't used twice.
    async with sending(log, "pairing") as send:
        await pairing.tell_registry(send, wanted)
    await serving(store, wanted)  # becomes the registry of a store without one
    return await change(store, succeed)


async def look_at(settings: Settings, log: Log, store: Store, generation: Generation) -> BothSides:
    """Return the pairing as log and store have it. Raises Unavailable when one is away."""
    there = await store.collections()
    wanted = (LEDGER, generation.heads, generation.chunks)
    counts = await asyncio.gather(*(store.count(name) for name in wanted if name in there))
    # The order matters, because another process may write a checkpoint meanwhile: to the store first, then to the log.
    # Read in any other order, a valid store could look like an older backup.
    on_log = await pairing.on_log(log)
    in_store = await pairing.in_store(store)
    ends = await pairing.extracted_ends(log)
    return BothSides(
        on_log=on_log,
        in_store=in_store,
        address=store_address(settings),
        ends=ends,
        missing=tuple(name for name in wanted if name not in there),
        emptied=not any(counts),
        beside=pairing.beside(settings),
        moves=log.moves,
    )


async def note_rebuild(store: Store, lost: Sequence[str]) -> Rebuild:
    """Record and return a rebuild of these collections, and of those of an unfinished rebuild.

    Raises Unavailable when the store is away, or another process has recorded one without these meanwhile.
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
    )
    standing = await write_rebuild(store, wanted, known=known)
    noted = standing is not None and (LEDGER not in lost or standing.phase == "ledger")
    if standing is None or standing.phase == "done" or not noted or not set(lost) <= set(standing.lost):
        raise Unavailable("the index was lost again while its rebuild was being recorded", CODE)
    return standing


async def pair_by_hand(settings: Settings, log: Log, store: Store, wanted: Registry) -> None:
    """Pair log and store even if their records contradict. No process is ready until `sluice verify` has compared them.

    Raises:
        ConfigurationError: an existing part is unfit. Unavailable: a part is away.
    """
    sides: list[BothSides] = []

    def judge(seen: BothSides) -> PairingDecision:
        sides.append(seen)
        return by_hand(seen)

    await make_missing(settings, log, store, wanted, grace_s=0.0, judge=judge)
    if not sides[0].emptied:
        first = "log and store were paired by hand (sluice init --pair), and have not been compared since"
        await verification_result.write(store, verification_result.Verdict(differences=1, at=now_ms(), first=first))


async def _pair(log: Log, store: Store, seen: BothSides, wanted: pairing.Pairing) -> None:
    """Write the pairing to the store, then to the log, unless they have it."""
    known, standing = seen.in_store, seen.in_store
    if known is None or _log_copy(known, seen.address) != _log_copy(wanted, seen.address):
        standing = await pairing.tell_store(store, wanted, known=known)
    assert standing is not None
    standing = msgspec.structs.replace(standing, address=seen.address)
    if seen.on_log is not None and _log_copy(seen.on_log, seen.on_log.address) == _log_copy(standing, seen.address):
        return
    async with sending(log, "pairing") as send:
        await pairing.tell_log(send, standing)


def _log_copy(known: pairing.Pairing, address: str) -> pairing.Pairing:
    """Return the pairing as the log's copy has it."""
    return msgspec.structs.replace(known, ends={}, address=address)


async def _preloaded(embedders: EmbedderPool, address: str) -> None:
    """Load the model while log and store start. A failure is raised later, when the model is first needed."""
    with suppress(Unavailable, ConfigurationError):
        await embedders.get(address)


async def _together(*calls: Coroutine[Any, Any, None]) -> None:
    """Run the calls concurrently; if one fails, cancel the others."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def store_troubles(store: Store, gate: RebuildGate | None = None) -> dict[str, str | None]:
    """Return the checks of the store and the index: None, or what is wrong.

    The index is wrong while it is rebuilt, or if the last `sluice verify` found differences.
    """
    try:
        async with asyncio.timeout(PROBE_S):
            await store.collections()
            if gate is not None:
                await gate.look()
            rebuilding = gate.trouble if gate is not None else None
            return {"store": None, "index": rebuilding or await verification_result.trouble(store)}
    except (TimeoutError, Unavailable) as error:
        return {"store": str(error) or f"the store gave no answer in {PROBE_S:g} s"}


async def log_troubles(log: Log) -> dict[str, str | None]:
    """Return the check of the log: None, or that it doesn't answer."""
    try:
        async with asyncio.timeout(PROBE_S):
            await log.end_offsets(AUDIT)
    except (TimeoutError, Unavailable):
        return {"log": f"the log gave no answer in {PROBE_S:g} s"}
    return {"log": None}


async def clock_details(log: Log) -> dict[str, str | None]:
    """Return a Detail if the newest record is more than an hour ahead of this machine's clock, else nothing."""
    if not isinstance(log, SqliteLog):
        return {}
    try:
        ahead_h = await log.ahead_ms() / 3_600_000
    except Unavailable:  # `log_troubles` says so
        return {}
    if ahead_h <= 1:
        return {}
    return {"log_clock": Detail(f"the newest record is {ahead_h:.1f} h ahead of this clock: check the machine's clock")}


async def embedder_troubles(embedder: Embedder) -> dict[str, str | None]:
    """Return the check of the embedding model's server: None, or what is wrong."""
    try:
        async with asyncio.timeout(PROBE_S):
            await embedder.ping()
    except (TimeoutError, Unavailable) as error:
        return {"embedder": str(error) or f"{embedder.model.name} gave no answer in {PROBE_S:g} s"}
    return {"embedder": None}
