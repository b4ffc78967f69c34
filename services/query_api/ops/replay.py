"""Replays a topic: publishes its records again, each with the position at which it first entered the log.

The stages pass over submissions that were superseded or have ended, so a replay repairs what is missing and changes
nothing else (docs/adr/0088-a-replay-sends-records-again.md). `replayed` chooses the records without I/O.
"""

import asyncio
from contextlib import aclosing
from uuid import UUID

import msgspec
from aiokafka import TopicPartition

from shared.contracts import DocumentChunked, DocumentExtracted, DocumentVersion, decode
from shared.errors import Rejected
from shared.log import Log, Publish, Record
from shared.log.headers import PLACE_HEADER, REDRIVE_HEADER, position_header, position_of, text_headers
from shared.log.read import reading
from shared.submission import submission_of
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic

CHUNKS = chunks_topic("")


class ReplayBound(msgspec.Struct, frozen=True):
    """Where a replay begins or ends: an offset or a time (ms since 1970); neither: the first or the last record."""

    offset: int | None = None
    time: int | None = None


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


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a replay sent, or would send."""

    topic: str
    dry_run: bool
    read: int
    sent: int
    unreadable: int
    partitions: list[ReplayedPartition]


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
        if record.value is None and _is_document(key):  # a deletion by key; only the ledger knows the tenant
            chosen = (order.tenant, order.source) == (None, None) and order.key in (None, key)
            return ReplayRecord(key.encode(), key.encode(), headers) if chosen else None
        submitted = submission_of(record)
        owner, source, name = submitted.tenant, submitted.source, submitted.document_id
        sent = ReplayRecord(name.encode(), name.encode(), headers)
    else:
        if record.value is None:
            return None
        document = _version(order.topic, record)
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


async def replay(log: Log, publish: Publish, order: ReplayOrder, *, dry_run: bool = False) -> Replayed:
    """Replay up to the topic's end at the time of the call; return what was sent. Partitions keep their order.

    Raises:
        Rejected: the topic can't be replayed, or lacks the partition.
        Unavailable: the log is away; a replay may be repeated.
    """
    check_topic(order.topic)
    ends = await log.end_offsets(order.topic)
    if order.partition is not None and order.partition >= len(ends):
        raise Rejected(f"{order.topic} has {len(ends)} partitions, no {order.partition}", "no_partition")
    starts = await log.offsets_since(order.topic, order.since.time or 0)
    until = ends if order.until.time is None else await log.offsets_since(order.topic, order.until.time)
    chosen = [tp for tp in sorted(ends) if order.partition in (None, tp.partition)]
    spans = {
        tp: (
            starts[tp] if order.since.offset is None else max(starts[tp], order.since.offset),
            until[tp] if order.until.offset is None else min(until[tp], order.until.offset),
        )
        for tp in chosen
    }
    done = await asyncio.gather(
        *(_replay_partition(log, publish, order, tp, span, dry_run=dry_run) for tp, span in spans.items())
    )
    return Replayed(
        topic=order.topic,
        dry_run=dry_run,
        read=sum(each.read for each in done),
        sent=sum(each.sent for each in done),
        unreadable=sum(each.unreadable for each in done),
        partitions=list(done),
    )


async def _replay_partition(
    log: Log, publish: Publish, order: ReplayOrder, tp: TopicPartition, span: tuple[int, int], *, dry_run: bool
) -> ReplayedPartition:
    since, until = span
    read = sent = unreadable = 0
    if since < until:
        async with reading(log, tp) as reader, aclosing(reader.between(since, until)) as records:
            async for record in records:
                read += 1
                try:
                    again = replayed(order, record)
                except Rejected:
                    unreadable += 1
                    continue
                if again is None:
                    continue
                if not dry_run:
                    await publish(order.topic, record.value, key=again.key, route=again.route, headers=again.headers)
                sent += 1
    return ReplayedPartition(
        partition=tp.partition, since=since, until=max(since, until), read=read, sent=sent, unreadable=unreadable
    )


def _version(topic: str, record: Record) -> DocumentVersion:
    if topic == EXTRACTED:
        return decode(record.value, DocumentExtracted).document
    return decode(record.value, DocumentChunked).document


def _is_document(key: str) -> bool:
    try:
        return str(UUID(key)) == key
    except ValueError:
        return False
