"""Consumer groups as an operator sees them: who is a member, what is read, and a reset that needs them gone."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import TopicPartition

from shared.contracts import DeadLetter, LogPosition, encode
from shared.errors import Rejected
from shared.log import Log
from shared.log.groups import ResetTo, described, keep_offsets, lag_of, new_offsets, our_groups
from shared.log.metrics import LogFigures
from shared.log.open_letters import OpenLetters
from shared.log.publish import publish
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, pipeline_topics
from tests.contract.logs import Harness, member, take, until

GROUP = "ingest"


@pytest.fixture
async def log(harness: Harness, users: AsyncExitStack) -> Log:
    """Give a log with ten submissions in two partitions."""
    log = await harness.join()
    await log.ensure_topics(pipeline_topics("g", partitions=2))
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    for number in range(10):
        await publish(broker, SUBMITTED, b"{}", key=f"k{number}".encode())
    return log


async def commit(log: Log, offsets: dict[TopicPartition, int]) -> None:
    tool = log.consumer(group_id=GROUP)
    tool.assign([*offsets])
    await tool.start()
    await tool.commit(offsets)
    await tool.stop()


async def test_a_group_is_described_partition_by_partition_with_its_member(log: Log, users: AsyncExitStack) -> None:
    assert await our_groups(log) == {}
    ends = await log.end_offsets(SUBMITTED)
    await commit(log, {tp: min(end, 1) for tp, end in ends.items()})

    idle = await described(log, GROUP, SUBMITTED)
    whole = await lag_of(log, GROUP, SUBMITTED)
    await member(users, log, GROUP, SUBMITTED)
    busy = await described(log, GROUP, SUBMITTED)

    assert await our_groups(log) == {GROUP: SUBMITTED}
    assert [row.log_end_offset for row in idle] == [ends[tp] for tp in sorted(ends)]
    assert sum(row.lag or 0 for row in idle) == whole.lag == 10 - sum(min(end, 1) for end in ends.values())
    assert whole.oldest_unread is not None
    assert {row.consumer_id for row in idle} == {None}
    (id_,) = {row.consumer_id for row in busy}
    assert [each.id for each in await log.members(GROUP)] == [id_]
    assert all(row.host for row in busy)


async def test_a_reset_is_refused_while_the_group_has_members_and_then_done(log: Log) -> None:
    ends = await log.end_offsets(SUBMITTED)
    async with AsyncExitStack() as users:
        consumer = await member(users, log, GROUP, SUBMITTED)
        await take(consumer, 10)
        await consumer.commit(ends)
        with pytest.raises(Rejected, match="group ingest has 1 members") as refused:
            await log.reset_offsets(GROUP, dict.fromkeys(ends, 0))
        assert refused.value.code == "group_busy"

    async def gone() -> bool:
        return not await log.members(GROUP)

    await until(gone)
    plan = await new_offsets(log, GROUP, SUBMITTED, ResetTo("shift-by", -1), frozenset({0}))
    await log.reset_offsets(GROUP, {TopicPartition(SUBMITTED, each.partition): each.new_offset for each in plan})

    first, second = sorted(ends)
    assert await log.committed(GROUP, SUBMITTED) == {first: ends[first] - 1, second: ends[second]}


async def test_a_group_is_dropped_once_it_has_no_members(log: Log) -> None:
    async with AsyncExitStack() as users:
        consumer = await member(users, log, GROUP, SUBMITTED)
        await take(consumer, 10)
        await consumer.commit(await log.end_offsets(SUBMITTED))
        with pytest.raises(Rejected, match="group ingest has 1 members"):
            await log.drop_group(GROUP)

    async def gone() -> bool:
        return not await log.members(GROUP)

    await until(gone)
    for _ in range(2):
        await log.drop_group(GROUP)

    assert await our_groups(log) == {}
    assert {*(await log.committed(GROUP, SUBMITTED)).values()} == {None}


@pytest.mark.parametrize(
    ("to", "part"),
    [("earliest", 0.0), ("latest", 1.0), ("offset", 0.0), ("datetime", 0.0)],
)
async def test_a_reset_stays_within_what_the_partition_holds(log: Log, to: str, part: float) -> None:
    plan = await new_offsets(log, GROUP, SUBMITTED, ResetTo(to))  # type: ignore[arg-type]  # one of them
    beyond = await new_offsets(log, GROUP, SUBMITTED, ResetTo("offset", 10**9))

    ends = await log.end_offsets(SUBMITTED)
    assert [each.new_offset for each in plan] == [int(part * ends[tp]) for tp in sorted(ends)]
    assert [each.new_offset for each in beyond] == [ends[tp] for tp in sorted(ends)]


async def test_what_can_not_be_reset_is_refused(log: Log) -> None:
    with pytest.raises(Rejected, match="has 2 partitions, but no partition 7"):
        await new_offsets(log, GROUP, SUBMITTED, ResetTo("earliest"), frozenset({7}))
    with pytest.raises(Rejected, match="no offset in partition 0"):
        await new_offsets(log, GROUP, SUBMITTED, ResetTo("shift-by", 1))


async def test_what_is_unread_or_failed_is_a_figure_whichever_process_reads_it(log: Log) -> None:
    ends = await log.end_offsets(SUBMITTED)
    await commit(log, dict.fromkeys(ends, 0))
    await keep_offsets(log, "chunk.dropped", EXTRACTED)
    place = LogPosition(partition=0, offset=0, time=0)
    about: dict[str, Any] = {"topic": SUBMITTED, "partition": 0, "offset": 0, "time": 0, "place": place}
    letter = DeadLetter(stage="chunk", code="odd", sentence="s", **about)
    async with AsyncExitStack() as users:
        broker = log.broker("test")
        await broker.start()
        users.push_async_callback(broker.stop)
        await publish(broker, DEAD_LETTERS, encode(letter), key=b"k")

    lines = (await LogFigures(log, OpenLetters(log), lambda: {GROUP}).exposition()).decode().splitlines()

    assert 'sluice_group_lag{generation="",role="ingest-worker",stage="ingest"} 10.0' in lines
    assert 'sluice_backlog{role="ingest-worker"} 10.0' in lines
    assert 'sluice_dead_letters_open{code="odd",stage="chunk"} 1.0' in lines
    assert not [line for line in lines if "dropped" in line]
    [age] = [line for line in lines if line.startswith("sluice_group_oldest_unread_seconds{")]
    assert float(age.rpartition(" ")[2]) >= 0


async def test_a_group_that_nobody_reads_keeps_its_offsets_and_one_without_any_gets_its_start(
    log: Log, users: AsyncExitStack
) -> None:
    one, two = await log.end_offsets(SUBMITTED)
    await commit(log, {one: 1})
    readers = {SUBMITTED: GROUP, EXTRACTED: "chunk.g"}

    for topic, group in readers.items():
        await keep_offsets(log, group, topic)

    assert await log.committed(GROUP, SUBMITTED) == {one: 1, two: 0}
    assert {*(await log.committed("chunk.g", EXTRACTED)).values()} == {0}
    assert [await log.members(group) for group in readers.values()] == [(), ()]


async def test_a_group_that_has_a_member_is_left_alone(log: Log, users: AsyncExitStack) -> None:
    await member(users, log, GROUP, SUBMITTED)
    before = await log.members(GROUP)

    await keep_offsets(log, GROUP, SUBMITTED)

    assert await log.members(GROUP) == before
