"""Offsets and lag of consumer groups, and resets of them, in the terms of Kafka's kafka-consumer-groups.sh."""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from typing import Literal

import msgspec
from aiokafka import TopicPartition

from shared.errors import Rejected
from shared.log import Log
from shared.log.read import Span, records
from shared.times import iso
from shared.topics import EXTRACTED, chunks_topic, readers, topic_of


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in one partition; None where the group has no offset or the partition no consumer."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class GroupLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many records of its topic a group has yet to read."""

    group: str
    topic: str
    lag: int
    members: int
    oldest_unread: str | None  # ISO 8601, when the oldest unread record was appended


class NewOffset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a reset puts a group in one partition."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    new_offset: int


ResetKind = Literal["earliest", "latest", "offset", "datetime", "shift-by"]


class ResetTo(msgspec.Struct, frozen=True):
    """The target of a reset; `value` is an offset, a time (ms since 1970), or a number of records to shift by."""

    kind: ResetKind
    value: int = 0


async def our_groups(log: Log) -> dict[str, str]:
    """Return the groups of the pipeline that have offsets or members, with the topic that each reads.

    Raises:
        Unavailable: the log is away.
    """
    return {name: topic for name in await log.groups() if (topic := topic_of(name)) is not None}


async def keep_offsets(log: Log, group: str, topic: str) -> None:
    """Join and leave the group if it has no member.

    A broker forgets the offsets of a group that is empty for a week, however new they are: its workers would read
    everything again, and until then nobody would see a backlog that should start them. A group without offsets gets
    those at which it would start. Raises Unavailable when the log is away, or has no such topic.
    """
    if await log.members(group):
        return
    consumer = log.consumer(group_id=group)
    consumer.subscribe([topic])
    try:
        await consumer.start()
    finally:
        await consumer.stop()


async def described(log: Log, group: str, topic: str) -> list[PartitionLag]:
    """Return a row for each partition. Raises Unavailable when the log is away, or has no such topic."""
    committed, ends, members = await asyncio.gather(
        log.committed(group, topic), log.end_offsets(topic), log.members(group)
    )
    owners = {tp: member for member in members for tp in member.partitions}
    rows = []
    for tp, end in sorted(ends.items()):
        offset, owner = committed.get(tp), owners.get(tp)
        rows.append(
            PartitionLag(
                group=group,
                topic=topic,
                partition=tp.partition,
                current_offset=offset,
                log_end_offset=end,
                lag=None if offset is None else max(0, end - offset),
                consumer_id=owner.id if owner else None,
                host=owner.host if owner else None,
                client_id=owner.client_id if owner else None,
            )
        )
    return rows


async def lag_of(log: Log, group: str, topic: str) -> GroupLag:
    """Return the group's whole lag. Raises Unavailable when the log is away, or has no such topic."""
    committed, ends, starts, members = await asyncio.gather(
        log.committed(group, topic), log.end_offsets(topic), log.offsets_since(topic, 0), log.members(group)
    )
    unread = {tp: max(committed.get(tp) or 0, starts[tp]) for tp in ends}
    unread = {tp: offset for tp, offset in unread.items() if offset < ends[tp]}
    times = await asyncio.gather(*(_time_of_next(log, tp, offset, ends[tp]) for tp, offset in unread.items()))
    oldest = min((time for time in times if time is not None), default=None)
    return GroupLag(
        group=group,
        topic=topic,
        lag=sum(ends[tp] - offset for tp, offset in unread.items()),
        members=len(members),
        oldest_unread=None if oldest is None else iso(oldest),
    )


async def unread_spans(
    log: Log, group: str, topic: str, ends: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, Span]:
    """Return what the group has yet to read below these ends, or the topic's own; of a new group, all that exists.

    Raises Unavailable when the log is away, or has no such topic.
    """
    committed = await log.committed(group, topic)
    ends = await log.end_offsets(topic) if ends is None else ends
    starts = await log.offsets_since(topic, 0) if None in committed.values() else {}
    firsts = {tp: starts.get(tp, 0) if (at := committed.get(tp)) is None else at for tp in ends}
    return {tp: (firsts[tp], end) for tp, end in ends.items() if firsts[tp] < end}


async def unread(log: Log, group: str, topic: str, ends: Mapping[TopicPartition, int] | None = None) -> int:
    """Return how many records `unread_spans` has. Raises Unavailable."""
    return sum(end - start for start, end in (await unread_spans(log, group, topic, ends)).values())


class Barrier(msgspec.Struct):
    """What a generation must have read before it may answer: the truth below `ends`, then the chunks made from it."""

    generation: str
    ends: dict[str, int]  # of documents.extracted, by partition
    chunked: dict[TopicPartition, int] | None = None  # ends of its chunk topic; None until all its chunks are published

    async def left(self, log: Log) -> int:
        """Return how many records below the barrier the stages have yet to read. Raises Unavailable."""
        topic = chunks_topic(self.generation)
        _, chunk_group, embed_group = readers(self.generation).values()
        if self.chunked is None:
            marks = {TopicPartition(EXTRACTED, int(number)): end for number, end in self.ends.items()}
            if waiting := await unread(log, chunk_group, EXTRACTED, marks):
                return waiting
            self.chunked = await log.end_offsets(topic)
        return await unread(log, embed_group, topic, self.chunked)


async def lags(log: Log, only: Collection[str] | None = None) -> list[GroupLag]:
    """Return the lag of each of the pipeline's groups, or of some. Raises Unavailable as `lag_of`."""
    found = (await our_groups(log)).items()
    return [await lag_of(log, group, topic) for group, topic in found if only is None or group in only]


async def descriptions(log: Log, group: str | None) -> list[PartitionLag]:
    """Return a row per partition of the group, or of all groups.

    Raises:
        Rejected: there is no such group. Unavailable: the log is away.
    """
    known = await our_groups(log)
    if group is not None and group not in known:
        raise Rejected(f"there is no group {group}; there are {', '.join(known) or 'none'}", "no_group")
    chosen = known if group is None else {group: known[group]}
    return [row for name, topic in chosen.items() for row in await described(log, name, topic)]


async def _time_of_next(log: Log, tp: TopicPartition, offset: int, end: int) -> int | None:
    """Return when the next existing record was appended, ms since 1970; None if only gaps of compaction are left."""
    async with aclosing(records(log, {tp: (offset, end)})) as found:
        record = await anext(found, None)
    time: int | None = None if record is None else record.timestamp
    return time


async def new_offsets(
    log: Log, group: str, topic: str, to: ResetTo, partitions: frozenset[int] | None = None
) -> list[NewOffset]:
    """Return the new offsets, limited to what each partition holds; `partitions` None: all of them.

    Raises:
        Rejected: the group has no offset to shift, or the topic lacks a partition.
        Unavailable: the log is away, or has no such topic.
    """
    committed, ends, starts = await asyncio.gather(
        log.committed(group, topic), log.end_offsets(topic), log.offsets_since(topic, 0)
    )
    chosen = sorted(tp for tp in ends if partitions is None or tp.partition in partitions)
    if missing := sorted((partitions or frozenset()) - {tp.partition for tp in chosen}):
        raise Rejected(f"{topic} has {len(ends)} partitions, but no partition {missing[0]}", "no_partition")
    wanted: Mapping[TopicPartition, int]
    match to.kind:
        case "earliest":
            wanted = starts
        case "latest":
            wanted = ends
        case "offset":
            wanted = dict.fromkeys(chosen, to.value)
        case "datetime":
            wanted = await log.offsets_since(topic, to.value)
        case "shift-by":
            wanted = {tp: _known(committed, tp) + to.value for tp in chosen}
    return [
        NewOffset(
            group=group,
            topic=topic,
            partition=tp.partition,
            current_offset=committed.get(tp),
            new_offset=min(max(wanted[tp], starts[tp]), ends[tp]),
        )
        for tp in chosen
    ]


def _known(committed: Mapping[TopicPartition, int | None], tp: TopicPartition) -> int:
    offset = committed.get(tp)
    if offset is None:
        raise Rejected(f"the group has no offset in partition {tp.partition} that could be shifted", "no_offset")
    return offset
