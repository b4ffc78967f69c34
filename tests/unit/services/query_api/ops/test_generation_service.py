"""A switch: what it waits for, and how few calls it makes. The rest is in tests/integration/test_reindex.py."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from services.query_api.ops import generation_service
from services.query_api.ops.generation_service import GenerationService
from shared.log.background import repeat
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.state.generation_watch import SEEN_S, GenerationWatch
from shared.state.generations import (
    Registry,
    begun,
    change,
    first_registry,
    marked_built,
    registry_of,
    serving,
    switch_begun,
    switch_ended,
    switched,
)
from shared.topics import EXTRACTED, pipeline_topics, readers
from tests.builders import Counted
from tests.contract.logs import HANG_S
from tests.fakes.state import GENERATION, ledger_and_index
from tests.fakes.store import MemoryStore

PARTITIONS = 2


class Clock:
    """Seconds, as set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Api:
    """One API's part in a switch: it answers from whichever generation serves."""

    def __init__(self, log: SqliteLog, store: Any, clock: Clock, data: Path) -> None:
        self.log, self.store = Counted(log), Counted(store)
        self.watch = GenerationWatch(cast("Any", self.store), "test", clock=clock)
        settings = Settings(data=data)
        base: Any = SimpleNamespace(settings=settings, log=self.log, store=self.store, watch=self.watch)
        self.service = GenerationService(base)
        self.watch.listen(self.follow)
        self.watch.listen(self.service.drive)

    async def follow(self, registry: Registry) -> None:
        ready = tuple(each.id for each in registry.generations)
        if (self.watch.own.ready, self.watch.own.serving) != (ready, registry.serving):
            await self.watch.tell(answers=True, ready=ready, serving=registry.serving)


class Rig:
    """A generation that serves, one that is built, and a log whose groups have read all of it."""

    def __init__(self, log: SqliteLog, data: Path) -> None:
        self.log, self.store, self.clock, self._data = log, MemoryStore(), Clock(), data
        self.ids: list[str] = []

    async def begin(self) -> None:
        await ledger_and_index(self.store)
        await serving(self.store, first_registry(GENERATION))
        registry = await change(self.store, lambda known: begun(known, GENERATION, embedder="m", ends={}, now=0))
        self.ids = [each.id for each in registry.generations]
        await change(self.store, lambda known: marked_built(known, self.ids[1], now=1))
        for id_ in self.ids:
            await self.log.ensure_topics(pipeline_topics(id_, partitions=PARTITIONS))
        await self.read()

    def api(self) -> Api:
        return Api(self.log, self.store, self.clock, self._data)

    async def read(self) -> None:
        """Let the groups of both generations read everything."""
        for id_ in self.ids:
            for topic, group in list(readers(id_).items())[1:]:
                await self.log.reset_offsets(group, await self.log.end_offsets(topic))

    async def extract(self) -> None:
        """Append a version that no generation has read."""
        broker = self.log.broker("test")
        await broker.start()
        await publish(broker, EXTRACTED, b"{}", key=b"some document")
        await broker.stop()

    async def registry(self) -> Registry:
        found = await registry_of(self.store)
        assert found is not None
        return found


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    rig = Rig(log, tmp_path)
    await rig.begin()
    yield rig
    await log.stop()


async def known_to(rig: Rig, *apis: Api) -> None:
    """Let each API learn of the generations, and enough time pass that all have."""
    for each in apis:
        await each.follow(await each.watch.look())
    rig.clock.now += SEEN_S


async def test_a_switch_waits_for_what_was_extracted_before_it(rig: Rig) -> None:
    api = rig.api()
    await known_to(rig, api)
    await rig.extract()
    await change(rig.store, partial(switch_begun, target=rig.ids[1]))

    await api.service.drive(await api.watch.look())
    before = (await rig.registry()).serving
    await rig.read()
    await api.service.drive(await api.watch.look())

    assert [before, (await rig.registry()).serving] == rig.ids


async def test_a_switch_doesnt_use_the_barrier_of_an_earlier_one_to_the_same_generation(rig: Rig) -> None:
    api = rig.api()
    await known_to(rig, api)
    await rig.extract()
    await change(rig.store, partial(switch_begun, target=rig.ids[1]))
    await api.service.drive(await api.watch.look())  # takes the barrier, and then is too slow to see what others do
    await rig.read()
    await change(rig.store, switched)
    await change(rig.store, switch_ended)
    await change(rig.store, partial(switch_begun, target=rig.ids[0]))
    await change(rig.store, switched)
    await change(rig.store, switch_ended)
    await rig.extract()
    await change(rig.store, partial(switch_begun, target=rig.ids[1]))

    await api.service.drive(await api.watch.look())

    assert (await rig.registry()).serving == rig.ids[0]


async def test_a_step_that_was_decided_for_one_switch_isnt_taken_for_another(rig: Rig) -> None:
    first = switch_begun(await rig.registry(), rig.ids[1])
    assert first.switching is not None
    second = switch_begun(msgspec.structs.replace(first, rev=first.rev + 2, switching=None), rig.ids[1])

    assert generation_service._switched_to(first, first.switching).serving == rig.ids[1]
    assert generation_service._switched_to(second, first.switching) == second


async def test_a_rollback_takes_few_calls_of_store_and_log(rig: Rig) -> None:
    api = rig.api()
    await known_to(rig, api)
    watching = AsyncExitStack()
    repeat(watching, api.watch.turn, 0.0)
    await api.service.switch(rig.ids[1], force=True, wait_s=HANG_S)
    api.store.calls.clear()
    api.log.calls.clear()

    outcome = await api.service.rollback(wait_s=HANG_S)

    asked, read = len(api.store.calls), len(api.log.calls)
    await watching.aclose()
    assert outcome.serving == rig.ids[0]
    assert (await rig.registry()).switching is None
    # Each call waits for searches. Three writes (begun, serves, ended), each flushed and read back.
    assert api.store.calls.count("flush") == 3
    assert asked <= 18
    assert read == 4
