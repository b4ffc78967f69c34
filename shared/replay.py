"""Replays a topic: publishes its records again, each with the position at which it first entered the log.

The stages pass over submissions that were superseded or have ended, so a replay repairs what is missing and changes
nothing else (docs/adr/0005-retries-dead-letters-replay.md). `replayed` chooses the records without I/O.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

import msgspec
from aiokafka import TopicPartition

from shared.contracts import DocumentChunked, DocumentExtracted, decode
from shared.errors import Rejected
from shared.ids import is_uuid
from shared.log import Log, Publish, Record
from shared.log.groups import our_groups
from shared.log.headers import PLACE_HEADER, REDRIVE_HEADER, position_header, position_of, text_headers
from shared.log.read import Span, records
from shared.submission import submission_of
from shared.times import offset_or_time
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic

CHUNKS = chunks_topic("")
_BATCH: Final = 256  # most records being written to the log at once


class ReplayBound(msgspec.Struct, frozen=True):
    """Where a replay begins or ends: an offset or a time (ms since 1970); neither: the first or the last record."""

    offset: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, given: int | str) -> "ReplayBound":
        """Return what `beginning`, `end`, an offset or a time stands for. Raises ValueError for anything else."""
        return cls() if given in ("beginning", "end") else cls(**offset_or_time(given))


class ReplayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a topic to send again."""

    topic: str
    since: ReplayBound = ReplayBound()
    until: ReplayBound = ReplayBound()  # exclusive
    partition: int | None = None
    key: str | None = None  # a record's key, or the id of its document
    source: str | None = None
    tenant: str | None = None


class ReplayedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of a partition were read and sent again."""

    partition: int
    since: int  # offsets
    until: int
    read: int = 0
    sent: int = 0
    unreadable: int = 0  # records that could not be decoded, and weren't sent
    next: int = 0  # the first offset that was not read


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a replay sent, or would send."""

    topic: str
    dry_run: bool
    read: int
    sent: int
    unreadable: int
    partitions: list[ReplayedPartition]

    @property
    def rest(self) -> dict[int, Span]:
        """Return what is left to replay, by partition."""
        return {each.partition: (each.next, each.until) for each in self.partitions if each.next < each.until}


Budget = Callable[[], bool]  # returns whether one more record may be read, in whatever partition


def replay_budget(records: int, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> Budget:
    """Return what one call may replay: so many records, for so long.

    The seconds count from the first record on, so that every call reads one.
    """
    asked, until = 0, 0.0

    def take() -> bool:
        nonlocal asked, until
        now, asked = clock(), asked + 1
        until = now + seconds if asked == 1 else until
        return asked <= records and now < until

    return take


class ReplayRecord(msgspec.Struct, frozen=True):
    """A record to send again."""

    key: bytes
    route: bytes
    headers: dict[str, str]


def replayed(order: ReplayOrder, record: Record) -> ReplayRecord | None:
    """Return how to send the record again; None if the order excludes it, or it is a tombstone.

    Raises:
        Rejected: it can't be decoded.
    """
    headers = {name: value for name, value in text_headers(record).items() if name != REDRIVE_HEADER}
    key = (record.key or b"").decode(errors="replace")
    if order.topic == SUBMITTED:
        headers[PLACE_HEADER] = position_header(position_of(record))
        if record.value is None and is_uuid(key):  # a deletion by key; only the ledger knows the tenant
            chosen = (order.tenant, order.source) == (None, None) and order.key in (None, key)
            return ReplayRecord(key.encode(), key.encode(), headers) if chosen else None
        submitted = submission_of(record)
        owner, source, name = submitted.tenant, submitted.source, submitted.document_id
        sent = ReplayRecord(name.encode(), name.encode(), headers)
    else:
        if record.value is None:
            return None
        kind: type[DocumentExtracted | DocumentChunked] = (
            DocumentExtracted if order.topic == EXTRACTED else DocumentChunked
        )
        document = decode(record.value, kind).document
        owner, source, name = document.tenant, document.source, document.document_id
        sent = ReplayRecord(record.key or name.encode(), name.encode(), headers)
    wanted = order.key in (None, key, name) and order.source in (None, source) and order.tenant in (None, owner)
    return sent if wanted else None


def check_topic(topic: str) -> None:
    """Check that the topic can be replayed.

    Raises:
        Rejected: code `no_replay`, no stage reads it.
    """
    if topic not in (SUBMITTED, EXTRACTED) and not (topic.startswith(CHUNKS) and topic != CHUNKS):
        known = f"{SUBMITTED}, {EXTRACTED} or {CHUNKS}<generation>"
        raise Rejected(f"{topic} can't be replayed; choose {known}", "no_replay")


async def spans_of(log: Log, order: ReplayOrder) -> dict[int, Span]:
    """Return the offsets that the order includes, by partition, up to the topic's present end.

    Raises:
        Rejected: the topic can't be replayed, or lacks the partition.
        Unavailable: the log is away.
    """
    check_topic(order.topic)
    if order.topic.startswith(CHUNKS) and order.topic not in (there := {*(await our_groups(log)).values()}):
        known = ", ".join(sorted(topic for topic in there if topic.startswith(CHUNKS))) or "none yet"
        raise Rejected(f"no stage reads {order.topic[:100]!r}; topics of chunks: {known}", "no_replay")
    ends = await log.end_offsets(order.topic)
    if order.partition is not None and order.partition >= len(ends):
        raise Rejected(f"{order.topic} has {len(ends)} partitions, but no partition {order.partition}", "no_partition")
    starts = await log.offsets_since(order.topic, order.since.time or 0)
    until = ends if order.until.time is None else await log.offsets_since(order.topic, order.until.time)
    return {
        tp.partition: (
            starts[tp] if order.since.offset is None else max(starts[tp], order.since.offset),
            until[tp] if order.until.offset is None else min(until[tp], order.until.offset),
        )
        for tp in sorted(ends)
        if order.partition in (None, tp.partition)
    }


async def replay(
    log: Log,
    publish: Publish,
    order: ReplayOrder,
    *,
    dry_run: bool = False,
    spans: Mapping[int, Span] | None = None,
    budget: Budget | None = None,
) -> Replayed:
    """Replay these offsets of each partition, or all that the order includes; return what was sent.

    Records of one document keep their order. With a budget, the rest may be left for another call: see `Replayed.rest`.

    Raises:
        Rejected: the topic can't be replayed, or lacks the partition.
        Unavailable: the log is away; a replay may be repeated.
    """
    chosen = await spans_of(log, order) if spans is None else spans
    send = None if dry_run else publish
    done = await asyncio.gather(
        *(_replayed(log, send, order, partition, span=span, budget=budget) for partition, span in chosen.items())
    )
    return Replayed(
        topic=order.topic,
        dry_run=dry_run,
        read=sum(each.read for each in done),
        sent=sum(each.sent for each in done),
        unreadable=sum(each.unreadable for each in done),
        partitions=list(done),
    )


async def _replayed(
    log: Log, publish: Publish | None, order: ReplayOrder, partition: int, *, span: Span, budget: Budget | None
) -> ReplayedPartition:
    """Return what was replayed of the offsets; without `publish`, what would be.

    Records are sent in batches: to wait for each alone would cost a disk sync per record.
    """
    since, until = span
    at, read, sent, unreadable = since, 0, 0, 0
    batch: dict[bytes, tuple[ReplayRecord, bytes | None]] = {}  # by route: one record per document

    async def flush() -> None:
        if publish is not None:
            await asyncio.gather(
                *(
                    publish(order.topic, value, key=each.key, route=each.route, headers=each.headers)
                    for each, value in batch.values()
                )
            )
        batch.clear()

    async with aclosing(records(log, {TopicPartition(order.topic, partition): span})) as found:
        async for record in found:
            if budget is not None and not budget():
                break
            read, at = read + 1, record.offset + 1
            try:
                again = replayed(order, record)
            except Rejected:
                unreadable += 1
                continue
            if again is not None:
                if again.route in batch or len(batch) >= _BATCH:
                    await flush()
                batch[again.route] = again, record.value
                sent += 1
        else:
            at = max(since, until)
    await flush()
    return ReplayedPartition(
        partition=partition,
        since=since,
        until=max(since, until),
        read=read,
        sent=sent,
        unreadable=unreadable,
        next=at,
    )
