"""The consumer that FastStream hands to a consumption, for one partition of the topic `events`."""

from collections.abc import Sequence

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError
from faststream.kafka import KafkaBroker

from shared.log import Record
from shared.log.consume import ConsumeOptions, Handle, consume
from shared.log.failure import Failure
from tests.contract.logs import until

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


async def consume_all(handle: Handle, records: Sequence[Record], *, key_concurrency: int) -> None:
    """Have the records handled, with so many at a time; return when all are done."""

    async def on_dead(record: Record, failure: Failure) -> None:
        raise AssertionError(failure)

    consumer = FakeConsumer()
    consumer.at[TP] = len(records)
    options = ConsumeOptions(key_concurrency=key_concurrency)
    consumption = consume(KafkaBroker(), "events", "g", handle, on_dead=on_dead, stage="test", options=options)
    consumption.consumer = lambda: consumer
    await consumption.dispatch(consumer, records)
    await until(lambda: consumption.handled == len(records))
    await consumption.stop()
