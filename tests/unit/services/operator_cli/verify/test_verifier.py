"""The state of the log that a verification begins with."""

import pytest
from aiokafka import TopicPartition

from services.operator_cli.verify.verifier import cut
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


async def test_a_cut_has_what_is_committed_and_where_the_log_ends(log: Log) -> None:
    broker = log.broker("test")
    await broker.start()
    for key in (b"a", b"b", b"c"):
        await publish(broker, "truth", b"1", key=key)
    await broker.stop()
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
