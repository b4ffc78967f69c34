"""What a batch read before a rebalance may not do, step by step: no real log can be stopped in between."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError
from faststream.kafka import KafkaBroker

from shared.log import Record
from shared.log.consume import ConsumeOptions, Consumption, consume, stepped_aside
from shared.log.failure import Failure
from tests.builders import an_event

TP = TopicPartition("events", 0)


class FakeConsumer:
    """A consumer that stands where it is told."""

    def __init__(self) -> None:
        self.at = {TP: 3}
        self.committed: dict[TopicPartition, int] = {}

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.at)

    async def position(self, tp: TopicPartition) -> int:
        if tp not in self.at:
            raise IllegalStateError(f"{tp} is not assigned")
        return self.at[tp]

    def pause(self, *tps: TopicPartition) -> None: ...

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset()

    async def commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        self.committed |= {tp: offset for tp, (offset, _) in offsets.items()}


@pytest.fixture
def handled() -> list[int]:
    return []


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
async def consumption(handled: list[int], consumer: FakeConsumer) -> AsyncIterator[Consumption]:
    async def handle(record: Record) -> None:
        handled.append(record.offset)

    async def on_dead(record: Record, failure: Failure) -> None:
        raise AssertionError(failure)

    consumption = consume(KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test")
    consumption.consumer = lambda: consumer
    yield consumption
    await consumption.stop()


BATCH = [an_event(offset, b"k%d" % offset) for offset in (0, 1, 2)]


async def test_a_batch_of_the_present_assignment_is_handled_and_committed(
    consumption: Consumption, consumer: FakeConsumer, handled: list[int]
) -> None:
    await consumption.dispatch(consumer, BATCH)
    await consumption.stop()

    assert handled == [0, 1, 2]
    assert consumer.committed == {TP: 3}


@pytest.mark.parametrize("position", [0, 2])
async def test_a_batch_read_before_the_partition_came_back_is_dropped(
    consumption: Consumption, consumer: FakeConsumer, handled: list[int], position: int
) -> None:
    consumer.at[TP] = position  # set back to the commit since the batch was read

    await consumption.dispatch(consumer, BATCH)
    await consumption.stop()

    assert handled == []
    assert consumer.committed == {}


async def test_a_batch_of_a_partition_that_is_going_is_dropped_until_it_is_ours_again(
    consumption: Consumption, consumer: FakeConsumer, handled: list[int]
) -> None:
    await consumption.on_partitions_revoked({TP})
    await consumption.dispatch(consumer, BATCH)
    assert consumption.in_flight == 0

    await consumption.on_partitions_assigned({TP})
    await consumption.dispatch(consumer, BATCH)
    await asyncio.sleep(0)
    await consumption.stop()

    assert handled == [0, 1, 2]


async def test_a_batch_of_somebody_elses_partition_is_dropped(
    consumption: Consumption, consumer: FakeConsumer, handled: list[int]
) -> None:
    consumer.at = {TopicPartition("events", 1): 9}

    await consumption.dispatch(consumer, BATCH)
    await consumption.stop()

    assert handled == []


async def test_a_batch_that_can_not_be_taken_over_stops_the_consumption(
    consumption: Consumption, consumer: FakeConsumer, handled: list[int]
) -> None:
    broken = [*BATCH, an_event(3, b"k", value=7)]  # type: ignore[arg-type]  # a bug of ours, whatever it is

    await consumption.dispatch(consumer, broken)
    consumer.at[TP] = 5
    await consumption.dispatch(consumer, broken)
    await consumption.stop()

    assert "failed by itself at events/0/0" in str(consumption.broken)
    assert consumer.committed == {}


async def test_records_that_step_aside_hold_up_no_other_key(consumer: FakeConsumer) -> None:
    handled: list[int] = []
    turn = asyncio.Event()

    async def handle(record: Record) -> None:
        if record.offset < 3:
            with stepped_aside("waits for its turn"):
                await turn.wait()
        handled.append(record.offset)
        if record.offset == 3:
            turn.set()

    async def on_dead(record: Record, failure: Failure) -> None:
        raise AssertionError(failure)

    consumption = consume(
        KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test", options=ConsumeOptions(key_concurrency=2)
    )
    consumption.consumer = lambda: consumer
    consumer.at[TP] = 4

    await consumption.dispatch(consumer, [*BATCH, an_event(3, b"k3")])
    async with asyncio.timeout(20):
        await turn.wait()
    await consumption.stop()

    assert sorted(handled) == [0, 1, 2, 3]
    assert handled[0] == 3
    assert consumer.committed == {TP: 4}
