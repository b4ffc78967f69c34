"""Records between two offsets, on each kind of log."""

import asyncio
from contextlib import aclosing
from typing import cast

import pytest
from aiokafka import TopicPartition

from shared.errors import Unavailable
from shared.log import Log
from shared.log.publish import publish
from shared.log.read import records, records_now
from shared.times import PATIENCE
from shared.topics import Topic
from tests.contract.logs import Harness

FIRST = TopicPartition("truth", 0)


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics([Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)])
    return log


async def write(log: Log, *values: str) -> None:
    broker = log.broker("test")
    await broker.start()
    try:
        for value in values:
            await publish(broker, "truth", value.encode(), key=value[:1].encode())
    finally:
        await broker.stop()


async def read(log: Log, start: int, end: int) -> list[bytes]:
    async with aclosing(records(log, {FIRST: (start, end)})) as found:
        return [record.value async for record in found]


async def test_a_span_is_read_to_its_end_and_no_further(log: Log) -> None:
    await write(log, "a1", "b1", "c1", "d1")

    assert await read(log, 1, 3) == [b"b1", b"c1"]
    assert await read(log, 2, 2) == []
    assert await read(log, 0, 4) == [b"a1", b"b1", b"c1", b"d1"]


async def test_what_compaction_took_is_stepped_over(log: Log, harness: Harness) -> None:
    await write(log, "a1", "a2", "b1", "a3")
    await harness.compact("truth")

    assert (await read(log, 0, 4))[-2:] == [b"b1", b"a3"]
    assert await read(log, 1, 2) in ([], [b"a2"])  # Kafka cleans when it likes


async def test_a_topic_is_read_to_where_it_ends_now(log: Log) -> None:
    await write(log, "a1", "b1")

    async with aclosing(records_now(log, "truth")) as found:
        first = await anext(found)
        await write(log, "c1")
        assert [first.value, *[record.value async for record in found]] == [b"a1", b"b1"]


class HangingLog:
    """A log whose broker accepts connections, and says nothing; so does each consumer of it."""

    def consumer(self, **_: str) -> "HangingLog":
        return self

    def assign(self, _: list[TopicPartition]) -> None:
        pass

    async def start(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass


async def test_a_log_that_hangs_is_waited_for_as_long_as_its_caller_waits() -> None:
    outer = PATIENCE.set(0.05)
    try:
        with pytest.raises(Unavailable, match="truth/0 gave no answer in time"):
            await read(cast("Log", HangingLog()), 0, 1)
    finally:
        PATIENCE.reset(outer)
