"""What a worker's readiness says of the parts that it stands on."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition

from shared.contracts import truth_key
from shared.embedder.ollama import ollama_embedder
from shared.errors import Unavailable
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.model_server.ollama import OllamaAddress
from shared.runtime.resources import (
    embedder_troubles,
    log_troubles,
    look_at,
    make_missing,
    note_rebuild,
    store_troubles,
    wanted_topics,
)
from shared.settings import Settings
from shared.state import pairing
from shared.state.generations import first_registry
from shared.state.index import Index, ServingIndex
from shared.state.ledger import COLLECTION as LEDGER
from shared.state.pairing import decide, registered
from shared.state.rebuild_gate import RebuildGate, last_rebuild, write_rebuild
from shared.topics import EXTRACTED, audit_topic
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore
from tests.servers.fake_ollama import EMBEDDING_MODEL, fake_ollama


async def test_a_log_is_named_when_it_is_silent(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log")
    await log.start()
    await log.ensure_topics([audit_topic(None)])

    well = await log_troubles(log)
    await log.stop()
    ill = await log_troubles(log)

    assert well == {"log": None}
    assert ill == {"log": "the log gave no answer in 2 s"}


async def test_a_model_is_named_when_its_server_is_gone() -> None:
    async with fake_ollama() as server:
        embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL))
        await embedder.start()
        well = await embedder_troubles(embedder)
    ill = await embedder_troubles(embedder)
    await embedder.close()

    assert well == {"embedder": None}
    assert f"Ollama at {server.url} can't be reached" in (ill["embedder"] or "")


@pytest.mark.parametrize("lost", ["everything", LEDGER, GENERATION.chunks])
async def test_what_was_lost_beside_the_log_is_to_be_rebuilt(tmp_path: Path, lost: str) -> None:
    settings, log, store = Settings(data=tmp_path), SqliteLog(tmp_path / "log"), MemoryStore()
    await log.start()

    async def started() -> str | None:
        gate = RebuildGate(store)
        await make_missing(settings, log, store, first_registry(GENERATION), gate=gate, grace_s=0.0)
        return (await store_troubles(store, gate))["index"]

    told = [await started(), await started()]
    broker = log.broker("worker")
    await broker.start()
    await publish(broker, EXTRACTED, b"{}", key=truth_key("d", 1), route=b"d")
    told.append(await started())
    if lost == "everything":
        store = MemoryStore()
    else:
        await store.drop_collection(lost)
    red = [await started(), await started()]
    rebuild = await last_rebuild(store)
    await broker.stop()
    await log.stop()

    assert told == [None] * 3
    named = GENERATION.chunks if lost == "everything" else lost
    assert all(sentence and named in sentence and "is being rebuilt" in sentence for sentence in red)
    assert rebuild is not None
    assert rebuild.phase == ("points" if lost == GENERATION.chunks else "ledger")


async def test_an_index_that_was_lost_is_succeeded_though_somebody_has_made_an_empty_one_since(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as (settings, log):
        store = MemoryStore()
        first = await rebuilt(settings, log, store)
        await store.drop_collection(first.generation.chunks)
        await note_rebuild(store, [first.generation.chunks])
        await Index(store, first.generation).create()
        _, index = await make_missing(settings, log, store, first_registry(GENERATION), grace_s=0.0)
        _, again = await make_missing(settings, log, store, first_registry(GENERATION), grace_s=0.0)

    assert index.generation.build == first.generation.build + 1
    assert again.generation == index.generation


@pytest.mark.parametrize(("first", "then"), [(LEDGER, "heads"), (LEDGER, "chunks"), ("heads", LEDGER)])
async def test_what_is_lost_while_a_loss_is_noted_is_noted_too(tmp_path: Path, first: str, then: str) -> None:
    async with documents_in(tmp_path) as (settings, log):
        store = MemoryStore()
        old = await rebuilt(settings, log, store)
        names = {LEDGER: LEDGER, "heads": old.generation.heads, "chunks": old.generation.chunks}
        await store.drop_collection(names[first])

        class Losing(RebuildGate):
            async def look(self) -> None:
                await super().look()
                await store.drop_collection(names[then])

        with pytest.raises(Unavailable, match="the index is lost"):
            await make_missing(settings, log, store, first_registry(GENERATION), gate=Losing(store), grace_s=0.0)
        _, index = await make_missing(settings, log, store, first_registry(GENERATION), grace_s=0.0)
        noted = await last_rebuild(store)

    assert index.generation.build == old.generation.build + 1
    assert noted is not None
    assert (noted.phase, {names[first], names[then]} <= set(noted.lost)) == ("ledger", True)


async def test_a_note_of_another_loss_is_not_taken_for_ones_own() -> None:
    store = MemoryStore()
    await pairing.create(store)
    await note_rebuild(store, ["heads.a"])

    class Overtaken(MemoryStore):
        async def upsert(self, name: str, *args: Any, **how: Any) -> None:
            if "only_if" in how:  # another process was first, with another loss
                how.pop("only_if")
                args = ([msgspec.structs.replace(args[0][0], payload={**args[0][0].payload, "lost": ["heads.b"]})],)
            await super().upsert(name, *args, **how)

    other = Overtaken()
    other.__dict__.update(store.__dict__)

    with pytest.raises(Unavailable, match="lost again"):
        await note_rebuild(other, ["chunks.a"])


async def test_a_store_that_is_lost_twice_gets_no_generation_twice(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as (settings, log):
        found = []
        for _ in range(3):
            store = MemoryStore()
            known = await registered(store, log) or first_registry(GENERATION)
            _, index = await make_missing(settings, log, store, known, grace_s=0.0)
            found.append(index.generation.build)

    assert found == [1, 2, 3]


@asynccontextmanager
async def documents_in(folder: Path) -> AsyncIterator[tuple[Settings, SqliteLog]]:
    """Yield the settings of a folder, and its log, which has a document."""
    settings, log = Settings(data=folder), SqliteLog(folder / "log")
    await log.start()
    await log.ensure_topics(wanted_topics(settings, GENERATION))
    broker = log.broker("worker")
    await broker.start()
    await publish(broker, EXTRACTED, b"{}", key=truth_key("d", 1), route=b"d")
    yield settings, log
    await broker.stop()
    await log.stop()


async def rebuilt(settings: Settings, log: SqliteLog, store: MemoryStore) -> ServingIndex:
    """Start on a store that has nothing of the log's documents, and say that its rebuild is done; return its index."""
    _, index = await make_missing(settings, log, store, first_registry(GENERATION), grace_s=0.0)
    noted = await last_rebuild(store)
    assert noted is not None
    await write_rebuild(store, msgspec.structs.replace(noted, phase="done"), known=noted)
    return index


async def test_who_does_not_rebuild_makes_nothing_of_what_was_lost(tmp_path: Path) -> None:
    settings, log, store = Settings(data=tmp_path), SqliteLog(tmp_path / "log"), MemoryStore()
    await log.start()
    await make_missing(settings, log, store, first_registry(GENERATION))
    broker = log.broker("worker")
    await broker.start()
    await publish(broker, EXTRACTED, b"{}", key=truth_key("d", 1), route=b"d")
    await broker.stop()
    await store.drop_collection(LEDGER)

    with pytest.raises(Unavailable, match="the index is lost; an ingest worker rebuilds it"):
        await make_missing(settings, log, store, first_registry(GENERATION), rebuilds=False)
    await log.stop()

    assert LEDGER not in await store.collections()


class LateReads(SqliteLog):
    """Something happens on the log before anybody's next read."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().end_offsets(topic)


async def test_a_checkpoint_during_a_start_does_not_make_the_store_an_older_backup(
    tmp_path: Path,
) -> None:
    settings, log, store = Settings(data=tmp_path), LateReads(tmp_path / "log"), MemoryStore()
    await log.start()
    await make_missing(settings, log, store, first_registry(GENERATION))
    broker = log.broker("worker")
    await broker.start()

    async def keep_checkpoint() -> None:
        await publish(broker, EXTRACTED, b"{}", key=truth_key("d", 1), route=b"d")
        await pairing.keep_checkpoint(log, store, partial(publish, broker), pairing.store_address(settings))

    log.meanwhile = keep_checkpoint
    seen = await look_at(settings, log, store, GENERATION)
    await broker.stop()
    await log.stop()

    assert seen.on_log is not None
    assert seen.on_log.checkpoint == 1
    assert decide(seen).lost == ()
