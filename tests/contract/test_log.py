"""What every log promises; a second adapter is a second harness in `logs.ADAPTERS`."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, OffsetOutOfRangeError
from aiokafka.partitioner import murmur2
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, Unavailable
from shared.log import Log
from shared.log.publish import publish
from shared.settings import ConfigurationError
from shared.topics import DAY, Topic
from tests.contract.logs import HANG_S, KAFKA_ONLY, Harness, all_of, member, reading, take, until


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics(
        [Topic(name="events", partitions=4), Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)]
    )
    return log


@pytest.fixture
async def broker(log: Log, users: AsyncExitStack) -> KafkaBroker:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


class Heard(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.revoked: list[TopicPartition] = []
        self.assigned: list[TopicPartition] = []

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.revoked += revoked

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assigned += assigned


# Records


async def test_records_of_a_key_share_a_partition_and_keep_their_order(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    keys = [f"k{number}".encode() for number in range(20)]
    for round_ in range(5):
        await asyncio.gather(*(publish(broker, "events", b"%d" % round_, key=key) for key in keys))

    records = await take(await reading(users, log.consumer(auto_offset_reset="earliest"), all_of("events", 4)), 100)

    for key in keys:
        mine = [record for record in records if record.key == key]
        assert [record.value for record in mine] == [b"0", b"1", b"2", b"3", b"4"]
        assert {record.partition for record in mine} == {(murmur2(key) & 0x7FFFFFFF) % 4}


async def test_a_route_other_than_the_key_chooses_the_partition(broker: KafkaBroker) -> None:
    first = await publish(broker, "events", b"", key=b"doc/1", route=b"doc")
    second = await publish(broker, "events", b"", key=b"doc/2", route=b"doc")

    assert first.partition == second.partition == (murmur2(b"doc") & 0x7FFFFFFF) % 4
    assert second.offset == first.offset + 1


async def test_the_answer_to_a_send_says_where_the_record_is(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    sent = await publish(broker, "events", b"body", key=b"k", headers={"colour": "blau ü"})

    (record,) = await take(await reading(users, log.consumer(auto_offset_reset="earliest"), [sent.topic_partition]), 1)

    assert (record.topic, record.partition, record.offset) == ("events", sent.partition, sent.offset)
    assert (record.key, record.value) == (b"k", b"body")
    assert ("colour", "blau ü".encode()) in record.headers
    assert record.timestamp == sent.timestamp


async def test_the_log_stamps_the_time_whatever_the_client_says(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    for _ in range(20):
        await broker.publish(b"", "truth", key=b"k", timestamp_ms=1)

    records = await take(await reading(users, log.consumer(auto_offset_reset="earliest"), all_of("truth", 1)), 20)

    times = [record.timestamp for record in records]
    assert times == sorted(times)
    assert times[0] > 1_600_000_000_000
    assert {record.timestamp_type for record in records} == {1}


async def test_a_null_value_and_odd_headers_come_as_they_were_sent(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    producer = broker.config.broker_config.producer._producer.producer  # type: ignore[attr-defined]
    odd = [("a", b"\xff\xfe"), ("a", b"twice"), ("null", None), ("", b"")]
    await publish(broker, "truth", None, key=b"gone")
    await (await producer.send("truth", b"x", key=b"k", headers=odd))

    records = await take(await reading(users, log.consumer(auto_offset_reset="earliest"), all_of("truth", 1)), 2)

    assert records[0].value is None
    assert records[0].key == b"gone"
    assert [(name, value) for name, value in records[1].headers] == odd


async def test_a_record_over_the_limit_is_rejected_and_the_next_is_taken(log: Log, broker: KafkaBroker) -> None:
    with pytest.raises(Rejected, match="too large for events") as refused:
        await publish(broker, "events", b"x" * (1024 * 1024 + 1), key=b"k")

    assert refused.value.code == "record_too_large"
    assert "Error" not in refused.value.sentence
    assert (await publish(broker, "events", b"small", key=b"k")).offset == 0


async def test_a_send_to_nowhere_is_unavailable_and_names_the_topic(log: Log, broker: KafkaBroker) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        await publish(broker, "nowhere", b"", key=b"k", timeout_s=1)


# Groups


async def test_a_crash_before_the_commit_repeats_the_record(
    harness: Harness, log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    for number in range(3):
        await publish(broker, "truth", b"%d" % number, key=b"k")
    crashing = await member(users, log, "g", "truth")
    records = await take(crashing, 3)
    await crashing.commit({TopicPartition("truth", 0): records[0].offset + 1})
    await crashing.stop()

    again = await take(await member(users, await harness.join(), "g", "truth"), 2)

    assert [record.value for record in again] == [b"1", b"2"]


async def test_two_groups_each_read_everything(log: Log, broker: KafkaBroker, users: AsyncExitStack) -> None:
    for number in range(30):
        await publish(broker, "events", b"%d" % number, key=b"k%d" % number)
    one = await member(users, log, "one", "events")
    await take(one, 30)
    await one.commit()

    two = await take(await member(users, log, "two", "events"), 30)

    assert {record.value for record in two} == {b"%d" % number for number in range(30)}
    assert sum(offset or 0 for offset in (await log.committed("one", "events")).values()) == 30


async def test_a_new_group_writes_down_where_it_starts(log: Log, broker: KafkaBroker, users: AsyncExitStack) -> None:
    await publish(broker, "truth", b"early", key=b"k")
    assert await log.committed("fresh", "truth") == {TopicPartition("truth", 0): None}

    consumer = await member(users, log, "fresh", "truth")

    assert await log.committed("fresh", "truth") == {TopicPartition("truth", 0): 0}
    assert [record.value for record in await take(consumer, 1)] == [b"early"]


@KAFKA_ONLY
async def test_members_share_partitions_and_take_over(log: Log, broker: KafkaBroker, users: AsyncExitStack) -> None:
    heard = Heard()
    first = await member(users, log, "g", "events", listener=heard)
    assert first.assignment() == set(all_of("events", 4))

    second = await member(users, log, "g", "events")
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)

    assert first.assignment() | second.assignment() == set(all_of("events", 4))
    assert set(second.assignment()) <= set(heard.revoked)

    await second.stop()
    await until(lambda: first.assignment() == set(all_of("events", 4)))

    for number in range(20):
        await publish(broker, "events", b"%d" % number, key=b"k%d" % number)
    assert len(await take(first, 20)) == 20


@KAFKA_ONLY
async def test_members_of_two_processes_share_partitions(
    harness: Harness, log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    first = await member(users, log, "g", "events")
    second = await member(users, await harness.join(), "g", "events")
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)

    for number in range(40):
        await publish(broker, "events", b"%d" % number, key=b"k%d" % number)
    seen: set[bytes] = set()
    async with asyncio.timeout(HANG_S):
        while len(seen) < 40:
            for consumer in (first, second):
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    seen |= {record.value for record in records}


@KAFKA_ONLY
async def test_a_commit_for_a_partition_that_has_moved_fails_and_stores_nothing(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    for number in range(40):
        await publish(broker, "events", b"", key=b"k%d" % number)
    first = await member(users, log, "g", "events")
    read = {(record.topic, record.partition) for record in await take(first, 40)}
    second = await member(users, log, "g", "events")
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    moved = next(iter(second.assignment()))
    assert (moved.topic, moved.partition) in read

    with pytest.raises((CommitFailedError, IllegalStateError)):
        await first.commit({moved: 1})

    assert (await log.committed("g", "events"))[moved] == 0


async def test_a_tool_may_set_the_offsets_of_a_group_that_rests(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    for number in range(5):
        await publish(broker, "truth", b"%d" % number, key=b"k")
    running = await member(users, log, "g", "truth")
    tool = await reading(users, log.consumer(group_id="g"), all_of("truth", 1))
    with pytest.raises(CommitFailedError):
        await tool.commit({TopicPartition("truth", 0): 3})
    await running.stop()

    await tool.commit({TopicPartition("truth", 0): 3})

    assert [record.value for record in await take(await member(users, log, "g", "truth"), 2)] == [b"3", b"4"]


async def test_what_is_committed_beside_an_offset_is_given_back_and_goes_with_the_next_commit(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    await publish(broker, "truth", b"0", key=b"k")
    truth = TopicPartition("truth", 0)
    consumer = await member(users, log, "g", "truth")
    await take(consumer, 1)
    found = [await consumer.committed_metadata(truth)]

    for commit in ((0, "a note"), (1, "another, of 1,000 bytes".ljust(1000)), 1):
        await consumer.commit({truth: commit})
        found.append(await consumer.committed_metadata(truth))

    assert found == ["", "a note", "another, of 1,000 bytes".ljust(1000), ""]
    assert (await log.committed("g", "truth"))[truth] == 1


# Positions


async def test_a_reader_replays_from_an_offset_and_from_a_time(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    tp = TopicPartition("truth", 0)
    sent = [await publish(broker, "truth", b"%d" % number, key=b"k") for number in range(10)]
    consumer = await reading(users, log.consumer(auto_offset_reset="latest"), [tp])
    assert await consumer.position(tp) == 10

    consumer.seek(tp, 7)
    assert [record.value for record in await take(consumer, 3)] == [b"7", b"8", b"9"]
    consumer.seek(tp, 0)
    [[record]] = (await consumer.getmany(timeout_ms=60_000, max_records=1)).values()
    assert record.offset == 0
    consumer.seek(tp, 10)
    assert await consumer.getmany(timeout_ms=0) == {}

    since = (await log.offsets_since("truth", sent[4].timestamp))[tp]
    assert since == min(one.offset for one in sent if one.timestamp >= sent[4].timestamp)
    assert (await log.offsets_since("truth", sent[9].timestamp + 60_000))[tp] == 10


async def test_a_paused_partition_gives_nothing_until_resumed(
    log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    tp = TopicPartition("truth", 0)
    consumer = await reading(users, log.consumer(auto_offset_reset="earliest"), [tp])
    consumer.pause(tp)
    await publish(broker, "truth", b"x", key=b"k")

    assert await consumer.getmany(timeout_ms=200) == {}
    assert consumer.paused() == {tp}

    consumer.resume(tp)
    assert len(await take(consumer, 1)) == 1


async def test_compaction_keeps_the_last_of_each_key_and_readers_step_over_the_gaps(
    harness: Harness, log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    tp = TopicPartition("truth", 0)
    behind = await member(users, log, "behind", "truth")
    for number in range(60):
        await publish(broker, "truth", b"%d" % number, key=b"k%d" % (number % 3))
    await publish(broker, "truth", None, key=b"k0")
    ends = await log.end_offsets("truth")

    more = await harness.compact("truth")

    assert ends == {tp: 61}
    assert await log.end_offsets("truth") == {tp: 61 + more}
    behind.seek(tp, 0)  # what it fetched ahead was fetched before
    records = await take(behind, 3 + more)
    assert [(record.offset, record.key, record.value) for record in records][:3] == [
        (58, b"k1", b"58"),
        (59, b"k2", b"59"),
        (60, b"k0", None),
    ]
    assert await behind.position(tp) == 61 + more
    assert (await publish(broker, "truth", b"next", key=b"k1")).offset == 61 + more
    behind.seek(tp, 7)
    assert [record.offset for record in await take(behind, 4 + more)] == [58, 59, 60, *range(61, 62 + more)]


async def test_offsets_never_fall_when_every_record_has_gone(
    harness: Harness, log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    sent = [await publish(broker, "events", b"", key=b"k") for _ in range(5)]
    tp = sent[0].topic_partition
    caught_up = await member(users, log, "g", "events")
    await take(caught_up, 5)
    await caught_up.commit()
    await caught_up.stop()

    await harness.forget("events")
    later = await harness.join()

    assert (await later.end_offsets("events"))[tp] == 5
    assert (await publish(broker, "events", b"after", key=b"k")).offset == 5
    assert [record.value for record in await take(await member(users, later, "g", "events"), 1)] == [b"after"]


async def test_a_reader_that_fell_behind_retention_stops_and_never_jumps(
    harness: Harness, log: Log, broker: KafkaBroker, users: AsyncExitStack
) -> None:
    await (await member(users, log, "late", "events")).stop()
    tp = (await publish(broker, "events", b"lost", key=b"k")).topic_partition
    await harness.forget("events")
    await publish(broker, "events", b"after", key=b"k")
    late = await member(users, log, "late", "events")

    with pytest.raises(OffsetOutOfRangeError, match="out of range"):
        await take(late, 1)

    assert await late.getmany(timeout_ms=200) == {}
    assert await late.position(tp) == 0
    late.seek(tp, 1)
    assert [record.value for record in await take(late, 1)] == [b"after"]


# Topics


async def test_topics_stay_as_they_were_made(harness: Harness, log: Log) -> None:
    await log.ensure_topics([Topic(name="events", partitions=4, retention_ms=1000)])

    await log.ensure_topics([Topic(name="events", partitions=8)])
    with pytest.raises(ConfigurationError, match=r"the topic truth has cleanup.* compact, not delete"):
        await (await harness.join()).ensure_topics([Topic(name="new"), Topic(name="truth", partitions=1)])

    new, events, truth = await log.inspect_topics(
        [Topic(name="new"), Topic(name="events", partitions=8), Topic(name="truth", partitions=1)]
    )
    assert (new.partitions, events.partitions, truth.partitions) == (None, 4, 1)
    assert (new.fit, events.fit, truth.fit) == (True, True, False)
    assert [(each.weight, str(each)) for each in events.differences] == [("note", "partitions 4, not 8")]
    assert len(await log.end_offsets("events")) == 4


async def test_a_question_about_a_topic_that_is_not_there_is_unavailable_and_names_it(log: Log) -> None:
    for question in (
        log.end_offsets,
        log.retention_ms,
        partial(log.committed, "g"),
        partial(log.offsets_since, time=0),
    ):
        with pytest.raises(Unavailable, match="nowhere"):
            await question("nowhere")


async def test_a_log_says_how_long_it_keeps_records(log: Log) -> None:
    await log.ensure_topics([Topic(name="kept", retention_ms=None), Topic(name="week", retention_ms=7 * DAY)])

    assert await log.retention_ms("week") == 7 * DAY
    assert await log.retention_ms("kept") is None
    assert await log.retention_ms("truth") is None


async def test_a_time_is_found_as_the_first_offset_that_is_not_older(
    harness: Harness, log: Log, broker: KafkaBroker
) -> None:
    tp = (first := await publish(broker, "events", b"1", key=b"k")).topic_partition
    later = await publish(broker, "events", b"2", key=b"k")
    while later.timestamp == first.timestamp:
        later = await publish(broker, "events", b"2", key=b"k")
    others = dict.fromkeys(all_of("events", 4), 0)

    assert await log.offsets_since("events", 0) == {**others, tp: 0}
    assert (await log.offsets_since("events", first.timestamp + 1))[tp] == (
        await log.offsets_since("events", later.timestamp)
    )[tp]
    assert (await log.offsets_since("events", later.timestamp))[tp] == later.offset
    assert (await log.offsets_since("events", later.timestamp + 1))[tp] == later.offset + 1
    await harness.forget("events")
    assert (await log.offsets_since("events", 0))[tp] == later.offset + 1
