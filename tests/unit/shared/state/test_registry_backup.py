"""The log remembers the generation that serves, so that a lost store is rebuilt as it was."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from shared.contracts import encode
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError
from shared.state.generations import (
    FORMAT,
    begun,
    change,
    first_registry,
    marked_built,
    serving,
    switch_begun,
    switched,
)
from shared.state.registry_backup import keep_copy, on_log, registered
from shared.topics import PAIRING, pipeline_topics
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore

OTHER = msgspec.structs.replace(GENERATION, chunk_size=400)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log")
    await log.start()
    yield log
    await log.stop()


async def test_a_log_without_topics_remembers_nothing(log: SqliteLog) -> None:
    assert await on_log(log) is None
    assert await registered(MemoryStore(), log) is None


async def test_after_a_switch_a_lost_store_gets_what_served_last_and_no_number_twice(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    store, broker = MemoryStore(), log.broker("worker")
    await broker.start()
    await serving(store, first_registry(GENERATION, "minilm:"))
    written = await keep_copy(store, partial(publish, broker))
    later = await change(store, lambda known: begun(known, OTHER, embedder="ollama://h/m", ends={}, now=1))
    [shadow] = later.others
    await change(store, lambda known: switched(switch_begun(marked_built(known, shadow.id, now=2), shadow.id)))
    written = await keep_copy(store, partial(publish, broker), written)
    written = await keep_copy(store, partial(publish, broker), written)
    await broker.stop()

    remembered = await registered(MemoryStore(), log)

    assert remembered is not None
    assert (remembered.serving, remembered.current.embedder) == (shadow.id, "ollama://h/m")
    assert (remembered.others, remembered.switching) == ((), None)
    assert (remembered.builds, remembered.rev) == (1, later.rev + 1)
    assert (await log.end_offsets(PAIRING)).popitem()[1] == 2  # what is there already isn't written again
    assert await registered(store, log) == await change(store, lambda known: known)


async def test_an_older_copy_that_was_written_last_is_not_believed(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    old = first_registry(GENERATION)
    new = msgspec.structs.replace(old, rev=2, builds=1)
    broker = log.broker("worker")
    await broker.start()
    for each in (new, old):
        await publish(broker, PAIRING, encode(each), key=b"generations")
    await broker.stop()

    assert await on_log(log) == new


async def test_a_copy_that_cant_be_read_is_refused_with_both_formats(log: SqliteLog) -> None:
    await log.ensure_topics(pipeline_topics("g"))
    broker = log.broker("worker")
    await broker.start()
    other = msgspec.structs.replace(first_registry(GENERATION), format=FORMAT + 1, serving="unknown here")
    await publish(broker, PAIRING, encode(other), key=b"generations")
    await broker.stop()

    with pytest.raises(ConfigurationError, match=f"its format is {FORMAT + 1}, this release has {FORMAT}"):
        await registered(MemoryStore(), log)
