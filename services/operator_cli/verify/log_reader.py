"""Reads the log for tools: its ends, its groups' offsets, and the records between two offsets."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from shared.errors import Unavailable
from shared.log import Log, Record

Span = tuple[int, int]  # first offset, and the one after the last
_PATIENCE_S = 30.0
_POLL_MS = 500


class Cut(msgspec.Struct, frozen=True):
    """The state of the log at one moment. Committed offsets are read first, so that they are below the ends."""

    committed: dict[TopicPartition, int]  # by the stage that reads the topic; 0 if it never began
    ends: dict[TopicPartition, int]

    def lag(self) -> dict[str, int]:
        """Return the number of unfinished records of each topic that a stage reads."""
        lag: dict[str, int] = {}
        for tp, committed in self.committed.items():
            lag[tp.topic] = lag.get(tp.topic, 0) + max(0, self.ends[tp] - committed)
        return lag


async def cut(log: Log, groups: Mapping[str, str], more: Iterable[str] = ()) -> Cut:
    """Return the log's state. `groups` maps topics to the groups that read them; of `more` topics, only ends are read.

    Raises:
        Unavailable: the log is away, or has no such topic.
    """
    with _our_errors():
        committed = {
            tp: offset or 0
            for topic, group in groups.items()
            for tp, offset in (await log.committed(group, topic)).items()
        }
        ends = {tp: end for topic in (*groups, *more) for tp, end in (await log.end_offsets(topic)).items()}
    return Cut(committed={tp: committed.get(tp, 0) for tp in ends if tp.topic in groups}, ends=ends)


async def records(log: Log, spans: Mapping[TopicPartition, Span]) -> AsyncGenerator[Record]:
    """Yield the records in `spans` that still exist, in order within each partition.

    Raises:
        Unavailable: the log is away, or sends no record for 30 s before the end of a span.
    """
    waited = {tp: end for tp, (start, end) in spans.items() if start < end}
    if not waited:
        return
    consumer = log.consumer()
    consumer.assign(list(waited))
    try:
        with _our_errors():
            await consumer.start()
            begins = await consumer.beginning_offsets(list(waited))
        for tp in waited:
            consumer.seek(tp, max(spans[tp][0], begins[tp]))
        last = asyncio.get_running_loop().time()
        while await _unread(consumer, waited):
            found = await _some(consumer, waited)
            for tp, batch in found.items():
                for record in batch:
                    if record.offset < spans[tp][1]:
                        yield record
            now = asyncio.get_running_loop().time()
            if found:
                last = now
            elif now - last > _PATIENCE_S:
                tp, end = next(iter(waited.items()))
                raise Unavailable(
                    f"{tp.topic}/{tp.partition} gave nothing in {_PATIENCE_S:g} s, and ends at {end}", "log_timeout"
                )
    finally:
        await consumer.stop()


async def _unread(consumer: Any, waited: dict[TopicPartition, int]) -> bool:
    """Return whether the partition has unread records; remove it from `waited` if it has none."""
    with _our_errors():
        for tp in [tp for tp, end in waited.items() if await consumer.position(tp) >= end]:
            del waited[tp]
            consumer.pause(tp)
    return bool(waited)


async def _some(consumer: Any, waited: Mapping[TopicPartition, int]) -> dict[TopicPartition, list[Record]]:
    with _our_errors():
        try:
            found: dict[TopicPartition, list[Record]] = await consumer.getmany(*waited, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            # Retention has deleted these records meanwhile.
            for tp, begin in (await consumer.beginning_offsets(list(waited))).items():
                if await consumer.position(tp) < begin:
                    consumer.seek(tp, begin)
            return {}
    return found


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except Unavailable:
        raise
    except KafkaError as error:
        raise Unavailable(f"the log can't be read: {error!r}", "log_unavailable") from error
