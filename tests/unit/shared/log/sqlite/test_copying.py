"""A copy of a log is a log of one moment, with the commits that are given; nothing is deleted while it is made."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from shared.errors import Unavailable
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.log.sqlite.copying import HELD, copying, deleting
from shared.topics import Topic

EVENTS = Topic(name="events", partitions=1)
TP = TopicPartition("events", 0)


async def opened(path: Path) -> SqliteLog:
    log = SqliteLog(path)
    await log.start()
    return log


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = await opened(tmp_path / "log.sqlite")
    await log.ensure_topics([EVENTS])
    yield log
    await log.stop()


async def fill(log: SqliteLog, count: int) -> None:
    broker = log.broker("test")
    await broker.start()
    for number in range(count):
        await publish(broker, "events", b"%d" % number, key=b"k")
    await broker.stop()


async def test_a_copy_has_the_records_of_now_and_the_commits_that_are_given(log: SqliteLog, tmp_path: Path) -> None:
    await fill(log, 3)
    await log.reset_offsets("readers", {TP: 2})
    commits = await log.commits()
    await fill(log, 2)
    await log.reset_offsets("readers", {TP: 5})
    await log.reset_offsets("newer", {TP: 1})

    await log.copy_to(tmp_path / "copy.sqlite", commits)

    copy = await opened(tmp_path / "copy.sqlite")
    assert await copy.end_offsets("events") == {TP: 5}
    assert await copy.committed("readers", "events") == {TP: 2}
    assert await copy.committed("newer", "events") == {TP: None}
    assert await log.committed("readers", "events") == {TP: 5}
    await copy.stop()
    for name in ("log", "copy"):
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


async def test_nobody_of_the_source_keeps_partitions_of_the_copy(log: SqliteLog, tmp_path: Path) -> None:
    consumer = log.consumer(group_id="readers", auto_offset_reset="earliest")
    consumer.subscribe(["events"])
    await consumer.start()
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=10)
    await log.copy_to(tmp_path / "copy.sqlite", await log.commits())
    await consumer.stop()

    copy = await opened(tmp_path / "copy.sqlite")
    await fill(copy, 1)
    heir = copy.consumer(group_id="readers", auto_offset_reset="earliest")
    heir.subscribe(["events"])
    await heir.start()
    records = await heir.getmany(timeout_ms=5000)
    await heir.stop()
    await copy.stop()

    assert [record.value for record in records[TP]] == [b"0"]


async def test_a_copy_that_finds_no_room_says_so(log: SqliteLog, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"log\.sqlite"):
        await log.copy_to(tmp_path / "no folder" / "copy.sqlite", [])


async def test_deletions_share_the_log_and_a_copy_has_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"

    with deleting(path), deleting(path):
        with pytest.raises(Unavailable, match="upkeep") as refused:
            async with copying(path, 0):
                pass
        assert refused.value.code == HELD
    async with copying(path, 0):
        with pytest.raises(Unavailable, match="backup") as refused, deleting(path):
            pass
        assert refused.value.code == HELD
        with pytest.raises(Unavailable, match="another backup"):
            async with copying(path, 0):
                pass
    with deleting(path):
        pass


async def test_a_copy_waits_for_a_deletion_to_end(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def copy() -> None:
        async with copying(path, 30):
            pass

    with deleting(path):
        copied = asyncio.create_task(copy())
        await asyncio.sleep(0)
        assert not copied.done()
    await copied
