"""Reads partitions between two offsets, without a group or commits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Collection, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from shared.errors import Unavailable
from shared.log import Log, Record
from shared.log.faststream_driver import DriverBroker
from shared.log.publish import partition_of
from shared.times import PATIENCE

T = TypeVar("T")
Span = tuple[int, int]  # first offset, and the one after the last
PATIENCE_S = 30.0  # longest wait for a record
_POLL_MS = 500
_WAIT_MS = 10  # longest wait of Kafka for records to fetch: a question after a read waits behind the next fetch
_NEAR = 20  # offsets; reading over a gap this small costs less than seeking


async def records(log: Log, spans: Mapping[TopicPartition, Span]) -> AsyncGenerator[Record]:
    """Yield the records of these spans that still exist, one partition after the other.

    Raises:
        Unavailable: the log is away, or no record arrived for PATIENCE_S.
    """
    for tp, (start, end) in spans.items():
        if start < end:
            async with reading(log, tp) as reader, aclosing(reader.between(start, end)) as found:
                async for record in found:
                    yield record


async def records_now(log: Log, topic: str) -> AsyncGenerator[Record]:
    """Yield the records that each partition of the topic has when it is reached. Raises Unavailable as `records`."""
    for tp in sorted(await log.end_offsets(topic)):
        async with reading(log, tp) as reader, aclosing(reader.between(*await reader.bounds())) as found:
            async for record in found:
                yield record


async def in_batches(found: AsyncGenerator[T], size: int) -> AsyncGenerator[list[T]]:
    """Yield what is found in lists of `size`, the last one perhaps shorter; `found` is closed at the end."""
    batch: list[T] = []
    async with aclosing(found):
        async for each in found:
            batch.append(each)
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch


async def spans_of(log: Log, topic: str, documents: Collection[str], since: int = 0) -> dict[TopicPartition, Span]:
    """Return what the partitions of these documents' records have since a time (ms since 1970). Raises Unavailable."""
    ends, starts = await log.end_offsets(topic), await log.offsets_since(topic, since)
    theirs = {partition_of(id_.encode(), len(ends)) for id_ in documents}
    return {tp: (starts[tp], end) for tp, end in sorted(ends.items()) if tp.partition in theirs}


@asynccontextmanager
async def reading(log: Log | DriverBroker, tp: TopicPartition) -> AsyncIterator["Reader"]:
    """Yield a reader of the partition.

    Raises:
        Unavailable: the log is away; also raised for errors inside the block.
    """
    consumer = log.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=_WAIT_MS)
    consumer.assign([tp])
    try:
        await _answered(consumer.start(), tp)
        yield Reader(consumer, tp)
    except Unavailable:
        raise
    except KafkaError as error:
        raise Unavailable(f"{tp.topic}/{tp.partition} can't be read: {error!r}", "log_unavailable") from error
    finally:
        await consumer.stop()


async def _answered(answer: Awaitable[T], tp: TopicPartition) -> T:
    try:
        async with asyncio.timeout(PATIENCE.get()):
            return await answer
    except TimeoutError:
        raise Unavailable(f"{tp.topic}/{tp.partition} gave no answer in time", "log_timeout") from None


class Reader:
    """Reads a partition; made by `reading`. One call at a time."""

    def __init__(self, consumer: Any, tp: TopicPartition) -> None:
        self._consumer = consumer
        self._tp = tp

    async def bounds(self) -> tuple[int, int]:
        """Return the first offset that still exists, and the next offset to be written."""
        starts = await _answered(self._consumer.beginning_offsets([self._tp]), self._tp)
        return starts[self._tp], (await _answered(self._consumer.end_offsets([self._tp]), self._tp))[self._tp]

    async def between(self, start: int, end: int) -> AsyncGenerator[Record]:
        """Yield the existing records from `start` to before `end`, in order; `end` must not exceed the partition's end.

        Raises:
            Unavailable: no record arrived for PATIENCE_S.
        """
        loop, tp = asyncio.get_running_loop(), self._tp
        start = max(start, (await self.bounds())[0])
        if start >= end:
            return
        self._consumer.seek(tp, start)
        patience_s = min(PATIENCE_S, PATIENCE.get())
        deadline = loop.time() + patience_s
        while await self._consumer.position(tp) < end:
            try:
                records = (await self._consumer.getmany(tp, timeout_ms=_POLL_MS)).get(tp, ())
            except OffsetOutOfRangeError:  # retention has deleted these records meanwhile
                records = ()
                if await self._consumer.position(tp) < (begin := (await self.bounds())[0]):
                    self._consumer.seek(tp, begin)
            for record in records:
                if record.offset >= end:
                    return
                yield record
            if records:
                deadline = loop.time() + patience_s
            elif loop.time() > deadline:
                raise Unavailable(f"{tp.topic}/{tp.partition} gave nothing in {patience_s:g} s", "log_timeout")

    async def at(self, offsets: Iterable[int]) -> dict[int, Record]:
        """Return those of the records that are still there, by offset."""
        found: dict[int, Record] = {}
        for run in _runs(sorted(set(offsets))):
            wanted = set(run)
            async for record in self.between(run[0], run[-1] + 1):
                if record.offset in wanted:
                    found[record.offset] = record
        return found


def _runs(offsets: list[int]) -> list[list[int]]:
    """Return the offsets in groups; each group is read with one seek."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= _NEAR:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
