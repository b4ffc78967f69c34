import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError

from shared.errors import Rejected
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog, groups
from shared.log.sqlite.groups import GroupTurn, Member
from shared.topics import Topic
from tests.contract.logs import HANG_S, all_of, member, take

A, B = Member("a", ("events",)), Member("b", ("events",))


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([Topic(name="events", partitions=2)])
    yield log
    await log.stop()


def test_one_of_a_group_reads_and_another_does_once_it_has_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    first, second, other_group = GroupTurn(path, "g"), GroupTurn(path, "g"), GroupTurn(path, "a group/another")

    assert groups.reader(path, "g") is None
    assert first.take(A)
    assert not second.take(B)
    assert other_group.take(B)
    assert groups.reader(path, "g") == A
    with pytest.raises(CommitFailedError), groups.at_rest(path, "g"):
        pass

    first.close()
    with groups.at_rest(path, "g"):
        assert not second.take(B)
    assert second.take(B)
    assert groups.reader(path, "g") == B


async def test_who_waits_takes_over_where_the_other_committed(
    log: SqliteLog, tmp_path: Path, users: AsyncExitStack
) -> None:
    elsewhere = SqliteLog(tmp_path / "log.db")
    await elsewhere.start()
    users.push_async_callback(elsewhere.stop)
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    for number in range(10):
        await publish(broker, "events", b"%d" % number, key=b"k")
    first = await member(users, log, "g", "events")
    read = await take(first, 10)
    second = await member(users, elsewhere, "g", "events")
    waiting = await member(users, log, "g", "events")
    assert second.assignment() == waiting.assignment() == frozenset()
    assert await second.getmany(timeout_ms=10) == {}

    await waiting.stop()
    await first.commit({TopicPartition("events", read[0].partition): 4})
    await first.stop()
    async with asyncio.timeout(HANG_S):
        assert (await second.getone()).value == b"4"

    assert second.assignment() == set(all_of("events", 2))


async def test_offsets_of_a_group_that_reads_are_left_alone(log: SqliteLog, users: AsyncExitStack) -> None:
    running = await member(users, log, "g", "events")
    (found,) = await log.members("g")
    assert found.partitions == set(all_of("events", 2))

    for change in (log.reset_offsets("g", {TopicPartition("events", 0): 7}), log.drop_group("g")):
        with pytest.raises(Rejected) as refused:
            await change
        assert refused.value.code == "group_busy"
    assert set((await log.committed("g", "events")).values()) == {0}

    await running.stop()
    assert await log.members("g") == ()
    await log.reset_offsets("g", {TopicPartition("events", 0): 7})
    assert (await log.committed("g", "events"))[TopicPartition("events", 0)] == 7
    await log.drop_group("g")
    assert await log.groups() == ()
