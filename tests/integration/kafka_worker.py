"""A worker process on Kafka, for tests: it says what happens, a line each.

Records finish at once while the file that it is told of says "go"; while it says "wait", they wait for another word.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from aiokafka import TopicPartition

from shared.log import Record
from shared.log.consume import ConsumeOptions, Consumption, consume
from shared.log.failure import Failure
from shared.log.kafka import KafkaAddress, KafkaLog


def say(*words: object) -> None:
    print(*words, flush=True)


def may_go(told: Path) -> bool:
    return told.read_text("utf-8") == "go"


async def main(address: str, topic: str, group: str, told: Path) -> None:
    log = KafkaLog(KafkaAddress(servers=(address,)), heartbeat_ms=200)
    await log.start()
    broker = log.broker("worker")

    async def handle(record: Record) -> None:
        say("began", record.partition, record.offset)
        while not may_go(told):  # noqa: ASYNC110 - the word comes from another process
            await asyncio.sleep(0.02)
        say("ended", record.partition, record.offset)

    async def on_dead(record: Record, failure: Failure) -> None:
        say("dead", record.partition, record.offset, failure.sentence)

    consumption = consume(
        broker, topic, group, handle, on_dead=on_dead, stage="test", options=ConsumeOptions(drain_s=2.0)
    )
    _tell_of_assignments(consumption)
    await broker.start()
    await asyncio.Event().wait()


def _tell_of_assignments(consumption: Consumption) -> None:
    assigned = consumption.on_partitions_assigned

    async def told(tps: Iterable[TopicPartition]) -> None:
        say("assigned", *sorted(tp.partition for tp in tps))
        await assigned(tps)

    consumption.on_partitions_assigned = told  # type: ignore[method-assign]  # only listened to


if __name__ == "__main__":
    address_, topic_, group_, told_ = sys.argv[1:]
    asyncio.run(main(address_, topic_, group_, Path(told_)))
