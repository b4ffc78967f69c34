"""The SQLite log forgets before retention does: in its records at once, in its file when that is made anew."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition

from shared.log import Record, Replacement
from shared.log.publish import publish
from shared.log.read import reading
from shared.log.sqlite import SqliteLog
from shared.topics import Topic

EVENTS = Topic(name="events", partitions=2)
TRUTH = Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)
WORD = b"Quetzalcoatlus"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([EVENTS, TRUTH])
    broker = log.broker("test")
    await broker.start()
    for number in range(40):
        value = WORD if number % 4 == 0 else b"kept"
        await publish(broker, "events", value * 900, key=f"{number}".encode(), headers={"about": value.decode()})
    for value in (WORD, b"newer"):
        await publish(broker, "truth", value, key=b"k")
    await broker.stop()
    yield log
    await log.stop()


async def records(log: SqliteLog, topic: str) -> list[Record]:
    found: list[Record] = []
    for tp in await log.end_offsets(topic):
        async with reading(log, TopicPartition(*tp)) as reader:
            found += [record async for record in reader.between(*await reader.bounds())]
    return found


def instead(record: Record) -> Replacement | None:
    return Replacement(b"another", None, {"why": "it had to go"}) if WORD in (record.value or b"") else None


def holding(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file() and WORD in path.read_bytes()]


async def test_records_are_overwritten_where_they_stand_but_never_in_a_compacted_topic(log: SqliteLog) -> None:
    before = await records(log, "events")

    count = await log.overwrite(instead)

    after = await records(log, "events")
    assert count == 10
    assert [(each.partition, each.offset, each.timestamp) for each in after] == [
        (each.partition, each.offset, each.timestamp) for each in before
    ]
    for old, new in zip(before, after, strict=True):
        if WORD in (old.value or b""):
            assert (new.key, new.value, new.headers) == (b"another", None, (("why", b"it had to go"),))
        else:
            assert (new.key, new.value, new.headers) == (old.key, old.value, old.headers)
    assert [each.value for each in await records(log, "truth")] == [WORD, b"newer"]


async def test_a_compacted_topic_with_a_lag_is_overwritten_because_it_keeps_what_was_replaced(log: SqliteLog) -> None:
    await log.ensure_topics([msgspec.structs.replace(TRUTH, compaction_lag_ms=1000)])

    await log.overwrite(instead)

    assert [each.value for each in await records(log, "truth")] == [None, b"newer"]


async def test_no_file_holds_what_was_overwritten_or_compacted_away_once_it_is_made_anew(
    log: SqliteLog, tmp_path: Path
) -> None:
    assert isinstance(log, SqliteLog)
    await log.overwrite(instead)
    kept = await records(log, "events")
    assert holding(tmp_path)  # or this test would show nothing

    await log.forget()

    assert holding(tmp_path) == []
    assert await records(log, "events") == kept
    assert [each.value for each in await records(log, "truth")] == [b"newer"]


async def test_nor_what_an_earlier_version_deleted_and_left_between_the_rows(log: SqliteLog, tmp_path: Path) -> None:
    broker = log.broker("test")
    await broker.start()
    for number in range(40):
        await publish(broker, "truth", WORD if number % 2 else b"newer", key=f"{number}".encode())
    await broker.stop()
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("DELETE FROM record WHERE instr(value, ?)", (WORD,))
    await log.keep_up()
    assert holding(tmp_path) == ["log.db"]

    await log.forget()

    assert holding(tmp_path) == []
