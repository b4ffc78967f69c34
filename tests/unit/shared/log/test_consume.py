"""What a batch read before a rebalance may not do, step by step: no real log can be stopped in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, RetryLater
from shared.log import Record
from shared.log.consume import ConsumeOptions, Consumption, consume, stepped_aside
from shared.log.failure import Failure
from shared.times import now_ms
from tests.builders import an_event
from tests.contract.logs import until
from tests.fakes.consumer import TP, FakeConsumer
from tests.tracing import traced


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


async def test_a_bug_of_one_measurement_does_not_end_the_measuring() -> None:
    bugs = [RuntimeError("a bug"), ConsumerStoppedError()]

    class Faulty(FakeConsumer):
        async def beginning_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            if bugs:
                raise bugs.pop()
            return dict.fromkeys(tps, 0)

        async def end_offsets(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(tps, 10)

    consumer = Faulty()
    options = ConsumeOptions(measure_every_s=0.001)
    consumption = consume(KafkaBroker(), "events", "g", _none, on_dead=_no_letter, stage="test", options=options)
    consumption.consumer = lambda: consumer
    await consumption.on_partitions_assigned([TP])

    await until(lambda: consumption.lag == {TP: 7})
    await consumption.stop()


async def _none(record: Record) -> None: ...


async def _no_letter(record: Record, failure: Failure) -> None: ...


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


async def test_a_record_that_steps_aside_twice_is_aside_until_the_outer_wait_ends(consumer: FakeConsumer) -> None:
    held, other = asyncio.Event(), asyncio.Event()

    async def handle(record: Record) -> None:
        if record.offset:
            other.set()
            return
        with stepped_aside("a long wait"):
            with stepped_aside("a short one"):
                pass
            held.set()
            await other.wait()

    async def on_dead(record: Record, failure: Failure) -> None:
        raise AssertionError(failure)

    options = ConsumeOptions(key_concurrency=1)
    consumption = consume(KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test", options=options)
    consumption.consumer = lambda: consumer
    consumer.at[TP] = 1
    await consumption.dispatch(consumer, BATCH[:1])
    async with asyncio.timeout(20):
        await held.wait()
        consumer.at[TP] = 2
        await consumption.dispatch(consumer, BATCH[1:2])
        await other.wait()
    await consumption.stop()


@pytest.mark.parametrize(
    ("records", "crowded"),
    [
        ([an_event(offset, b"k%d" % offset) for offset in range(14)], set()),
        ([an_event(offset, b"k%d" % offset) for offset in range(20)], set(range(20))),
        ([*BATCH, an_event(3, b"k1")], {1}),
    ],
    ids=["few", "many", "one key's next"],
)
async def test_what_stepped_aside_is_crowded_once_it_holds_up_others(
    consumer: FakeConsumer, records: list[Record], crowded: set[int]
) -> None:
    found: dict[int, bool] = {}
    look, turn = asyncio.Event(), asyncio.Event()

    async def handle(record: Record) -> None:
        with stepped_aside("waits for its turn") as is_crowded:
            await look.wait()
            found[record.offset] = is_crowded()
            await turn.wait()

    async def on_dead(record: Record, failure: Failure) -> None:
        raise AssertionError(failure)

    options = ConsumeOptions(key_concurrency=2, max_in_flight=8)
    consumption = consume(KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test", options=options)
    consumption.consumer = lambda: consumer
    consumer.at[TP] = len(records)
    await consumption.dispatch(consumer, records)
    keys = len({record.key for record in records})
    await until(lambda: len(consumption.retrying.get(TP, ())) == keys)
    look.set()
    await until(lambda: len(found) == keys)
    turn.set()
    await consumption.stop()

    assert {offset for offset, is_crowded in found.items() if is_crowded} == crowded


async def test_six_records_of_one_batch_are_in_six_traces(consumer: FakeConsumer) -> None:
    async def handle(record: Record) -> None:
        if record.offset == 0:  # whose task starts other records
            raise RetryLater("later", "later", after_s=0.0, tries=2)
        if record.offset == 1:
            raise Rejected("a secret", "empty")

    async def on_dead(record: Record, failure: Failure) -> None: ...

    consumption = consume(
        KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test", options=ConsumeOptions(key_concurrency=2)
    )
    consumption.consumer = lambda: consumer
    consumer.at[TP] = 6
    given = {f"{n:032x}": f"00-{n:032x}-{n:016x}-01" for n in range(1, 6)}
    headers = [(("traceparent", each.encode()), ("baggage", b"secret=1")) for each in given.values()]
    batch = [
        replace(an_event(offset, b"k%d" % offset), headers=own, timestamp=now_ms())
        for offset, own in enumerate([*headers, ()])  # the last one has none
    ]

    with traced() as spans:
        await consumption.dispatch(consumer, batch)
        await until(lambda: consumption.in_flight == 0)
        await consumption.stop()

    found = spans.get_finished_spans()
    of_records = {f"{span.context.trace_id:032x}": span.parent and span.parent.span_id for span in found}
    assert len(found) == len(of_records) == 6
    assert of_records.items() > {trace: int(trace, 16) for trace in given}.items()
    assert sum(span.parent is None for span in found) == 1
    assert sorted(str((span.attributes or {}).get("error.type")) for span in found)[-2:] == ["empty", "later"]
    assert "secret" not in "".join(span.to_json() for span in found)


async def test_a_record_that_is_read_again_long_after_is_only_linked_to_its_trace(
    consumption: Consumption, consumer: FakeConsumer
) -> None:
    header = ("traceparent", b"00-%032x-%016x-01" % (7, 7))

    with traced() as spans:
        await consumption.dispatch(consumer, [replace(an_event(0), headers=(header,))])
        await consumption.stop()

    [span] = spans.get_finished_spans()
    assert (span.parent, [link.context.trace_id for link in span.links]) == (None, [7])
