"""Whether a log says in time that retention will reach what nobody has read."""

from contextlib import AsyncExitStack

import pytest
from aiokafka.structs import RecordMetadata
from faststream.kafka import KafkaBroker

from shared.log import Log
from shared.log.publish import publish
from shared.log.retention_risk import Backlog, endangered
from shared.topics import DAY, Topic
from tests.contract.logs import Harness, member

WEEK = 7 * DAY
HALF = WEEK // 2


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics(
        [
            Topic(name="events", partitions=2, retention_ms=WEEK),
            Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None),
        ]
    )
    return log


@pytest.fixture
async def broker(log: Log, users: AsyncExitStack) -> KafkaBroker:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


async def two_ages(broker: KafkaBroker) -> tuple[RecordMetadata, RecordMetadata]:
    """Return a record, and one of the same partition that is some milliseconds younger."""
    old = young = await publish(broker, "events", b"", key=b"k")
    while young.timestamp == old.timestamp:
        old, young = young, await publish(broker, "events", b"", key=b"k")
    return old, young


async def test_a_record_is_in_danger_from_half_of_its_retention_on_until_it_is_read(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    old, young = await two_ages(broker)
    reader = await member(users, log, "g", "events")
    await reader.commit({old.topic_partition: old.offset})

    assert await endangered(log, "g", "events", old.timestamp + HALF) is None
    said = await endangered(log, "g", "events", young.timestamp + HALF)
    assert said is not None
    assert said.startswith("g has not read 1 of events's records for longer than half of the 7 days")

    await reader.commit({old.topic_partition: young.offset})
    assert await endangered(log, "g", "events", young.timestamp + HALF) is None
    await reader.commit({old.topic_partition: young.offset + 1})
    assert await endangered(log, "g", "events", young.timestamp + 10 * WEEK) is None


async def test_a_group_that_never_came_has_all_before_it_that_is_still_there(
    harness: Harness, log: Log, broker: KafkaBroker
) -> None:
    _, young = await two_ages(broker)

    said = await endangered(log, "nobody", "events", young.timestamp + 1 + HALF)
    assert said is not None
    assert said.startswith(f"nobody has not read {young.offset + 1} of")

    await harness.forget("events")
    assert await endangered(log, "nobody", "events", young.timestamp + 1 + HALF) is None


async def test_a_topic_that_forgets_nothing_is_never_in_danger(log: Log, broker: KafkaBroker) -> None:
    sent = await publish(broker, "truth", b"", key=b"k")

    assert await endangered(log, "nobody", "truth", sent.timestamp + 1000 * WEEK) is None


async def test_what_was_seen_last_stands_until_the_log_can_be_asked_again(log: Log, broker: KafkaBroker) -> None:
    _, young = await two_ages(broker)
    clock = [young.timestamp + 1 + HALF]
    backlog = Backlog(log, {"truth": "nobody", "events": "nobody"}, now=lambda: clock[0])

    await backlog.measure()
    seen = str(backlog.trouble)
    assert "nobody has not read" in seen

    lost = Backlog(log, {"nowhere": "nobody"}, now=lambda: clock[0])
    lost.trouble = seen
    await lost.measure()
    assert lost.trouble == seen

    clock[0] = young.timestamp
    await backlog.measure()
    assert backlog.trouble is None


async def test_a_generation_beside_the_one_that_serves_is_named_and_refuses_nothing(
    log: Log, broker: KafkaBroker
) -> None:
    _, young = await two_ages(broker)
    backlog = Backlog(log, {}, now=lambda: young.timestamp + 1 + HALF)

    backlog.follow({}, [{"events": "shadow"}])
    await backlog.measure()

    assert backlog.trouble is None
    assert backlog.elsewhere is not None
    assert "shadow has not read" in backlog.elsewhere
    backlog.follow({})
    await backlog.measure()
    assert backlog.elsewhere is None
