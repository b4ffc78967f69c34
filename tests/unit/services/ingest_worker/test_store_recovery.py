"""A lost index is served by a successor with the gate shut, until its stages have read what had ended before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from services.ingest_worker.store_recovery import LedgerFold, Rebuilder
from shared.contracts import DocumentExtracted, encode, truth_key
from shared.errors import Unavailable
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.runtime.resources import make_missing
from shared.settings import ConfigurationError, Settings
from shared.state.generation_watch import SEEN_S, GenerationWatch
from shared.state.generations import Registry, first_registry, registry_of
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.ledger import Entry, Ledger
from shared.state.rebuild_gate import RebuildGate, last_rebuild
from shared.topics import EXTRACTED, chunks_topic, readers
from tests.fakes.clock import SetClock
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore
from tests.unit.services.operator_cli.verify.builders import NAME, a_version


class Rig(NamedTuple):
    """A worker beside a log that has a document."""

    rebuilder: Rebuilder
    gate: RebuildGate
    log: SqliteLog
    store: MemoryStore
    clock: SetClock

    async def registry(self) -> Registry:
        found = await registry_of(self.store)
        assert found is not None
        return found

    async def read(self, topic: str) -> None:
        """Let the successor's stage read its topic to the end."""
        group = readers((await self.registry()).serving)[topic]
        await self.log.reset_offsets(group, await self.log.end_offsets(topic))


@asynccontextmanager
async def a_rig(folder: Path, *, alone: bool = True) -> AsyncIterator[Rig]:
    settings, log, store, clock = Settings(data=folder), SqliteLog(folder / "log"), MemoryStore(), SetClock()
    gate, watch = RebuildGate(store), GenerationWatch(store, "worker", clock=clock)
    restore = partial(make_missing, settings, log, store, first_registry(GENERATION), gate=gate, grace_s=0.0)
    await log.start()
    await restore()
    broker = log.broker("worker")
    await broker.start()
    value = encode(DocumentExtracted(document=a_version(version=1)))
    await publish(broker, EXTRACTED, value, key=truth_key(NAME, 1), route=NAME.encode())

    async def restored() -> None:
        await restore()

    rebuilder = Rebuilder(log=log, store=store, gate=gate, generations=watch, restore=restored, alone=alone)
    yield Rig(rebuilder, gate, log, store, clock)
    await broker.stop()
    await log.stop()


async def test_another_store_in_the_lost_ones_place_keeps_the_gate_shut(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        for name in await rig.store.collections():
            await rig.store.drop_collection(name)

        async def other() -> None:
            raise ConfigurationError("it is another store")

        rig.rebuilder.restore = other
        with pytest.raises(ConfigurationError):
            await rig.rebuilder.look()

        assert rig.gate.lost == "it is another store"


async def test_the_gate_is_shut_until_the_successor_has_read_all_there_was(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        await rig.store.drop_collection(GENERATION.chunks)
        await rig.rebuilder.step()
        begun = await rig.registry()
        told = [rig.gate.trouble]
        await rig.read(EXTRACTED)
        await rig.rebuilder.step()
        told.append(rig.gate.trouble)
        await rig.read(chunks_topic(begun.serving))
        await rig.rebuilder.step()
        full = await rig.registry()

    assert begun.current.before == (GENERATION.id,)
    assert begun.current.fills
    assert [each.id for each in begun.fed] == [begun.serving]
    assert told[0] is not None
    assert rig.gate.trouble is None
    assert (full.serving, full.current.built) == (begun.serving, True)


async def test_chunks_that_are_left_to_embed_keep_the_gate_shut(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        await rig.store.drop_collection(GENERATION.heads)
        await rig.rebuilder.step()
        topic = chunks_topic((await rig.registry()).serving)
        broker = rig.log.broker("chunking")
        await broker.start()
        await publish(broker, topic, b"{}", key=b"d")
        await broker.stop()
        await rig.read(EXTRACTED)
        await rig.rebuilder.step()
        shut = rig.gate.trouble
        await rig.read(topic)
        await rig.rebuilder.step()

    assert shut is not None
    assert rig.gate.trouble is None


async def test_nothing_counts_as_read_before_every_process_knows_of_the_successor(tmp_path: Path) -> None:
    async with a_rig(tmp_path, alone=False) as rig:
        await rig.store.drop_collection(GENERATION.heads)
        await rig.rebuilder.step()
        await rig.read(EXTRACTED)
        await rig.rebuilder.step()
        shut = rig.gate.trouble
        rig.clock.now += SEEN_S
        await rig.rebuilder.step()

    assert shut is not None
    assert rig.gate.trouble is None


async def test_a_lost_ledger_is_folded_and_the_index_stays(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        await rig.store.drop_collection(LEDGER)
        await rig.rebuilder.step()
        entry = await Ledger(rig.store).get(NAME)
        registry = await rig.registry()

    assert entry is not None
    assert (entry.accepted.version, entry.last.status) == (1, "accepted")
    assert (registry.serving, registry.others) == (GENERATION.id, ())
    assert rig.gate.trouble is None


def newer(entry: Entry | None) -> Entry:
    """Return the entry as a worker leaves it that has accepted another version since."""
    assert entry is not None
    return msgspec.structs.replace(entry, accepted=msgspec.structs.replace(entry.accepted, version=2))


async def test_who_folds_after_others_have_gone_on_changes_nothing(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        registered = (await rig.registry()).current
        await LedgerFold(rig.log, rig.store, registered).run()
        ledger = Ledger(rig.store)
        later = await ledger.update(NAME, newer)
        await LedgerFold(rig.log, rig.store, registered).run()

        assert await ledger.get(NAME) == later


async def test_where_it_was_lost_again_meanwhile_it_begins_anew(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        await rig.store.drop_collection(GENERATION.heads)
        await rig.rebuilder.step()
        first = await last_rebuild(rig.store)
        successor = (await rig.registry()).current.generation
        await rig.store.drop_collection(successor.chunks)
        await rig.rebuilder.step()
        second = await last_rebuild(rig.store)
        registry = await rig.registry()
        assert first is not None
        with pytest.raises(Unavailable, match="lost again"):
            await rig.rebuilder._save(first, phase="done")

    assert second is not None
    assert second.number == first.number + 1
    assert registry.current.before == (successor.id, GENERATION.id)
    assert [each.lost for each in registry.others] == [True, True]
