"""A tool's view of the log, on each kind of log."""

from contextlib import aclosing

import pytest
from aiokafka import TopicPartition

from services.operator_cli.verify.log_reader import cut, records
from shared.errors import Unavailable
from shared.log import Log
from shared.log.publish import publish
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


async def test_a_cut_has_what_is_committed_and_where_the_log_ends(log: Log) -> None:
    await write(log, "a1", "b1", "c1")
    consumer = log.consumer(group_id="stage")
    consumer.subscribe(["truth"])
    await consumer.start()
    try:
        await consumer.commit({FIRST: 2})
    finally:
        await consumer.stop()

    now = await cut(log, {"truth": "stage"})
    unread = await cut(log, {"truth": "nobody"}, ())

    assert (now.committed[FIRST], now.ends[FIRST], now.lag()) == (2, 3, {"truth": 1})
    assert (unread.committed[FIRST], unread.lag()) == (0, {"truth": 3})


async def test_a_topic_that_is_not_there_is_unavailable(log: Log) -> None:
    with pytest.raises(Unavailable):
        await cut(log, {"nothing": "stage"})
