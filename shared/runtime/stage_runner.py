"""Runs the stages of every registered generation: of the one that serves, and of those built or kept beside it.

Each generation has a broker of its own, so its stages begin and end while the others go on. What goes wrong with a
generation that doesn't serve is a detail of readiness, because documents are taken in and found without it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog
from faststream.kafka import KafkaBroker

from shared.embedder import Embedder, Model
from shared.embedder.open import EmbedderPool
from shared.errors import Unavailable
from shared.log import Log, Publish
from shared.log.consume import Consumption
from shared.log.publish import publish
from shared.runtime.probes import Detail
from shared.settings import ConfigurationError
from shared.state.generation_statuses import GenerationStatuses, truth_guarded
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import Registered, Registry
from shared.state.index import Generation, Index
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import Gate
from shared.store import Store
from shared.store.bm25 import Bm25, current_bm25
from shared.topics import Topic

log_ = structlog.get_logger(__name__)  # `log` is the documents' log here

_AGAIN_S: Final = 5.0  # until a generation that couldn't begin is tried again


@dataclass(frozen=True, kw_only=True)
class GenerationParts:
    """What the stages of one generation work with."""

    registered: Registered
    index: Index
    embedder: Embedder
    bm25: Bm25
    statuses: GenerationStatuses
    publish: Publish  # leaves the truth alone while the generation doesn't serve
    broker: KafkaBroker
    fills: Callable[[], bool]  # whether the generation doesn't serve, or isn't full yet, as last seen
    siblings: Callable[[], list[Index]]  # generations of the same model, whose vectors can be copied


Join = Callable[[GenerationParts, AsyncExitStack], Awaitable[list[Consumption]]]


@dataclass(kw_only=True)
class GenerationStages:
    """The running stages of all generations in one process."""

    log: Log
    store: Store
    ledger: Ledger
    gate: Gate
    embedders: EmbedderPool
    watch: GenerationWatch
    topics: Callable[[Generation], Iterable[Topic]]
    join: Join | None  # subscribes a generation's stages on its broker; None: no stages

    def __post_init__(self) -> None:
        self._running: dict[str, _RunningStages] = {}
        self._beginning: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, str] = {}  # generation -> why its stages don't run yet

    async def start(self) -> None:
        """Begin the stages of the generation that serves; those of the others follow.

        Raises:
            Unavailable: a part is away. ConfigurationError: the model's address is wrong.
        """
        registry = await self.watch.look()
        if self.join is not None:
            await self._begin(registry.current, self.join)
            self.watch.listen(partial(self.follow, join=self.join))

    async def follow(self, registry: Registry, *, join: Join) -> None:
        """Begin the stages of new generations and end those of dropped ones."""
        there = {each.id for each in registry.fed}
        for id_ in (self._running.keys() | self._beginning.keys()) - there:
            await self._end(id_)
        for each in registry.fed:
            if each.id not in self._running and each.id not in self._beginning:
                self._beginning[each.id] = asyncio.create_task(self._keep_beginning(each, join))
        await self._tell()

    async def stop(self) -> None:
        """End all stages; in-flight records are finished or left uncommitted."""
        for id_ in self._running.keys() | self._beginning.keys():
            await self._end(id_)

    def serving(self) -> list[Consumption]:
        """Return the stages of the generation that serves, as last seen."""
        registry = self.watch.registry
        running = self._running.get(registry.serving) if registry is not None else None
        return running.consumptions if running is not None else []

    def troubles(self) -> dict[str, str | None]:
        """Return the checks of all stages; what is wrong beside the serving generation is a Detail."""
        registry = self.watch.registry
        serving = registry.serving if registry is not None else None
        found: dict[str, str | None] = {}
        for id_, running in self._running.items():
            for each in running.consumptions:
                trouble = trouble_of(each)
                found[each.name] = trouble if id_ == serving or trouble is None else Detail(trouble)
        for id_, sentence in self._waiting.items():
            waits = f"its stages wait: {sentence}"
            found[f"generation {id_}"] = waits if id_ == serving else Detail(waits)
        return found

    async def _keep_beginning(self, registered: Registered, join: Join) -> None:
        while True:
            try:
                await self._begin(registered, join)
            except Exception as error:  # after a bug, too: readiness tells it, and the next try may succeed
                reason = str(error) or type(error).__name__
                bug = None if isinstance(error, Unavailable | ConfigurationError) else error
                self._waiting[registered.id] = reason
                log_.warning("generation_waits", generation=registered.id, reason=reason, exc_info=bug)
                await asyncio.sleep(_AGAIN_S)
            else:
                break
        self._waiting.pop(registered.id, None)
        self._beginning.pop(registered.id, None)
        await self._tell()

    async def _begin(self, registered: Registered, join: Join) -> None:
        async with AsyncExitStack() as stack:
            parts = await self._parts(registered)
            consumptions = await join(parts, stack)
            stack.push_async_callback(parts.broker.stop)
            await parts.broker.start()
            for each in consumptions:
                stack.push_async_callback(each.stop)
            self._running[registered.id] = _RunningStages(consumptions, stack.pop_all())
        log_.info("generation_stages_begun", generation=registered.id)

    async def _end(self, id_: str) -> None:
        beginning = self._beginning.pop(id_, None)
        if beginning is not None:
            beginning.cancel()
            await asyncio.wait([beginning])
        self._waiting.pop(id_, None)
        running = self._running.pop(id_, None)
        if running is not None:
            await running.stack.aclose()
            log_.info("generation_stages_ended", generation=id_)

    async def _parts(self, registered: Registered) -> GenerationParts:
        embedder = await model_of(registered, self.embedders)
        index = Index(self.store, registered.generation, self.gate)
        await self.log.ensure_topics(self.topics(registered.generation))
        await index.create()
        broker = self.log.broker("generation")
        send = partial(publish, broker)
        return GenerationParts(
            registered=registered,
            index=index,
            embedder=embedder,
            bm25=current_bm25(),
            statuses=GenerationStatuses(
                self.ledger,
                send,
                store=self.store,
                watch=self.watch,
                generation=registered.id,
                past=registered.as_of is not None,
            ),
            publish=truth_guarded(send, self.watch, registered.id),
            broker=broker,
            fills=partial(self._fills, registered.id),
            siblings=partial(self._siblings, registered),
        )

    def _fills(self, id_: str) -> bool:
        registry = self.watch.registry
        return registry is not None and (registry.serving != id_ or registry.current.fills)

    def _siblings(self, registered: Registered) -> list[Index]:
        registry = self.watch.registry
        return [
            Index(self.store, each.generation)
            for each in (registry.generations if registry is not None else ())
            if each.id != registered.id and same_vectors(each.generation.model, registered.generation.model)
        ]

    async def _tell(self) -> None:
        feeds = tuple(sorted(self._running))
        if feeds != self.watch.own.feeds:
            await self.watch.tell(feeds=feeds)


class _RunningStages(NamedTuple):
    consumptions: list[Consumption]
    stack: AsyncExitStack


def trouble_of(consumption: Consumption) -> str | None:
    """Return why the stage waits or stopped, else a Detail of the records that it retries, else None."""
    if trouble := consumption.broken or next(iter(consumption.waiting.values()), None):
        return trouble
    doubtful = [sentence for sentences in consumption.retrying.values() for sentence in sentences]
    return Detail(f"records that wait or are tried again: {len(doubtful)}, first: {doubtful[0]}") if doubtful else None


async def model_of(registered: Registered, embedders: EmbedderPool) -> Embedder:
    """Return the generation's model, started.

    Raises:
        Unavailable: its server is away, or has another model under the name.
        ConfigurationError: the address is wrong.
    """
    embedder = await embedders.get(registered.embedder)
    wanted = registered.generation.model
    if embedder.model != wanted:
        raise Unavailable(
            f"generation {registered.id} was built with {wanted.name} (digest {wanted.digest[:12]}), and "
            f"{registered.embedder} has {embedder.model.name} (digest {embedder.model.digest[:12]}) now",
            "model_changed",
        )
    return embedder


def same_vectors(one: Model, other: Model) -> bool:
    """Return whether both models give the same vector for a text."""
    return (one.digest, one.dimension, one.precision) == (other.digest, other.dimension, other.precision)
