import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from fcntl import LOCK_SH
from pathlib import Path

import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition

from shared.errors import Rejected
from shared.log.publish import publish
from shared.log.sqlite import LogUnavailable, SqliteLog, group_membership
from shared.log.sqlite.file import WriteTurn
from shared.log.sqlite.group_membership import GroupTurn
from shared.topics import Topic
from tests.contract.logs import HANG_S, all_of, member, take, until

A, B = "a", "b"
TP = TopicPartition("events", 0)


class Broken(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        raise ValueError(assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None: ...


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([Topic(name="events", partitions=2)])
    yield log
    await log.stop()


def test_one_of_a_group_reads_and_another_does_once_it_has_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    assert group_membership.reader(path, "g") is None
    assert list(tmp_path.iterdir()) == [], "who looks makes no file: it may be another user's"
    first, second, other_group = GroupTurn(path, "g"), GroupTurn(path, "g"), GroupTurn(path, "a group/another")
    assert group_membership.reader(path, "g") is None
    assert first.take(A)
    assert not second.take(B)
    assert other_group.take(B)
    assert group_membership.reader(path, "g") == A
    with closing(GroupTurn(path, "g")) as change, closing(GroupTurn(path, "g")) as other_change:
        assert not change.try_lock(LOCK_SH)
        first.close()
        assert change.try_lock(LOCK_SH)
        assert other_change.try_lock(LOCK_SH)
        assert group_membership.reader(path, "g") is None
        assert not second.take(B)
    assert second.take(B)
    assert group_membership.reader(path, "g") == B


def test_a_full_disk_keeps_nobody_from_reading(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    turn = GroupTurn(path, "g")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        taken = turn.take(A)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert taken
    assert group_membership.reader(path, "g") is not None


def test_a_group_whose_file_can_not_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "log.db.groups" / "g").mkdir(parents=True)

    uses: tuple[Callable[[Path, str], object], ...] = (GroupTurn, group_membership.reader)
    for use in uses:
        with pytest.raises(LogUnavailable):
            use(tmp_path / "log.db", "g")


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
        [[record]] = (await second.getmany(timeout_ms=60_000, max_records=1)).values()
        assert record.value == b"4"

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


async def test_an_error_of_the_listener_stops_nobody(log: SqliteLog, users: AsyncExitStack) -> None:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    await publish(broker, "events", b"0", key=b"k")

    consumer = await member(users, log, "g", "events", listener=Broken())

    assert [record.value for record in await take(consumer, 1)] == [b"0"]


async def test_nobody_reads_until_a_change_is_written_that_nobody_waits_for(log: SqliteLog, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(GroupTurn(path, "g")) as turn:
        with closing(WriteTurn(path)) as elsewhere, elsewhere.taken():
            change = asyncio.create_task(log.reset_offsets("g", {TP: 7}))
            await asyncio.sleep(0)
            change.cancel()
            await asyncio.wait([change])
            assert not turn.take(A)

        await until(lambda: turn.take(A))
        assert (await log.committed("g", "events"))[TP] == 7


async def test_a_consumer_whose_stop_is_cancelled_leaves_its_group(log: SqliteLog, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    consumer = log.consumer(group_id="g", auto_offset_reset="none")
    consumer.subscribe(["events"])
    await consumer.start()

    with closing(WriteTurn(path)) as elsewhere, elsewhere.taken():
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])

    with closing(GroupTurn(path, "g")) as turn:
        await until(lambda: turn.take(A))
