"""aiokafka's consumer interface on the file."""

import asyncio
import logging
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from aiokafka import ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)

from shared.log import LogUnavailable
from shared.log.headers import with_position
from shared.log.sqlite import group_membership
from shared.log.sqlite.storage import KnownTopic, Storage

log = logging.getLogger(__name__)

_LOG_APPEND_TIME = 1
_TURN_S = 0.1  # between two looks whether it is a waiting consumer's turn
_FETCH_BYTES = 8 << 20  # of one getmany over all partitions
_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])


class _Held:
    """A partition that this consumer reads, and its position in it."""

    __slots__ = ("failed", "id", "paused", "position", "tp")

    def __init__(self, tp: TopicPartition, id_: int, position: int | None) -> None:
        self.tp = tp
        self.id = id_
        self.position = position  # None: not known yet
        self.paused = False
        self.failed = False  # out of range: not read until a seek


class _Want(NamedTuple):
    held: _Held
    position: int


class _Got(msgspec.Struct, frozen=True):
    records: list[ConsumerRecord]
    position: int  # after these records and the gap that follows them
    end: int
    out_of_range: str | None = None


class Consumer:
    """Reads partitions: all of its topics (`subscribe`), in a group once it is its turn, or its owner's choice
    (`assign`). Methods and errors are aiokafka's. Commits are explicit only.

    `patient`: `getmany` waits until there is something instead of returning nothing. FastStream sleeps after
    every empty poll, which would delay the next record.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        group_id: str | None = None,
        auto_offset_reset: str = "none",
        enable_auto_commit: bool = False,
        max_poll_records: int | None = None,
        max_partition_fetch_bytes: int = 1 << 20,
        patient: bool = False,
        **ignored: Any,
    ) -> None:
        if enable_auto_commit:
            raise ValueError("enable_auto_commit=True would lose records at a crash: commit explicitly")
        if auto_offset_reset not in ("none", "earliest", "latest"):
            raise ValueError(f"auto_offset_reset={auto_offset_reset!r} must be none, earliest or latest")
        del ignored  # aiokafka's options of sessions and of the network
        self._storage = storage
        self._group_id = group_id
        self._reset = auto_offset_reset
        self._max_records = max_poll_records or 500
        self._max_partition_bytes = max_partition_fetch_bytes
        self._patient = patient
        self._held: dict[TopicPartition, _Held] = {}
        self._assigned_by_hand: list[TopicPartition] = []
        self._topics: list[str] = []
        self._listener: ConsumerRebalanceListener | None = None
        self._turn: group_membership.GroupTurn | None = None
        self._waiting: asyncio.Task[None] | None = None  # for its turn
        self._wake = asyncio.Event()  # there may be records to read
        self._started = self._closed = False
        # FastStream's logging listener asks aiokafka's private parts who this is.
        self._coordinator = SimpleNamespace(member_id=f"{group_id or 'reader'}-{uuid4().hex[:12]}")
        self._subscription = SimpleNamespace(topics=self._topics)

    # Life

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics; `listener` is told about assigned and revoked partitions."""
        if pattern is not None:
            raise ValueError(f"pattern={pattern!r}: name the topics instead")
        self._topics[:] = topics
        self._listener = listener

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, even if others read them, too."""
        self._assigned_by_hand = [TopicPartition(*tp) for tp in partitions]
        if self._started:
            self._held = {
                tp: _Held(tp, self._storage.topics[tp.topic].ids[tp.partition], None) for tp in self._assigned_by_hand
            }
            self._wake.set()

    async def start(self) -> None:
        """Start; in a group, begin to read if no other member does, else once it has stopped.

        Raises:
            UnknownTopicOrPartitionError: a topic isn't there.
        """
        for name in {*self._topics, *(tp.topic for tp in self._assigned_by_hand)}:
            await self._storage.topic(name)
        self._started = True
        self._storage.watchers.add(self._written)
        self.assign(self._assigned_by_hand)
        if self._topics and self._group_id is not None:
            self._turn = group_membership.GroupTurn(self._storage.path, self._group_id)
            if not await self._take_turn(self._turn, self._group_id):
                log.info("group_has_a_reader: %s waits until it stops", self._group_id)
                self._waiting = asyncio.create_task(self._wait_for_turn(self._turn, self._group_id), name="log-turn")
        elif self._topics:
            await self._hold([_Held(tp, id_, None) for id_, tp in self._partitions().items()])

    async def stop(self) -> None:
        """Stop reading and leave the group at once; like aiokafka, without telling the listener."""
        if self._closed:
            return
        self._closed = True
        self._storage.watchers.discard(self._written)
        self._wake.set()
        if self._waiting is not None:
            self._waiting.cancel()
        if (turn := self._turn) is not None:
            written = self._storage.submit(lambda _: None)  # commits on their way come before another one's
            written.add_done_callback(lambda _: turn.close())  # also if the caller is cancelled
            with suppress(LogUnavailable):
                await asyncio.shield(written)
        if self._waiting is not None:
            await asyncio.gather(self._waiting, return_exceptions=True)

    def _open(self) -> None:
        if self._closed or not self._started:
            raise ConsumerStoppedError

    def _written(self, partitions: Collection[int]) -> None:
        # One that waits for records of other partitions sleeps on: a document's way has eight writes.
        if any(held.id in partitions for held in self._held.values()):
            self._wake.set()

    # The group

    async def _take_turn(self, turn: group_membership.GroupTurn, group: str) -> bool:
        """Return whether this consumer reads from now on. Its first offsets are stored before."""
        if not turn.take(self._coordinator.member_id):
            return False
        ids = self._partitions()
        begin = partial(group_membership.begin, group=group, partitions=[*ids], at_end=self._reset == "latest")
        offsets = await self._storage.submit(begin)
        await self._hold([_Held(tp, id_, offsets[id_]) for id_, tp in ids.items()])
        return True

    def _partitions(self) -> dict[int, TopicPartition]:
        """Return all partitions of the topics, by row id."""
        return {
            id_: TopicPartition(name, number)
            for name in self._topics
            for number, id_ in enumerate(self._storage.topics[name].ids)
        }

    async def _wait_for_turn(self, turn: group_membership.GroupTurn, group: str) -> None:
        while True:
            await asyncio.sleep(_TURN_S)
            try:
                if await self._take_turn(turn, group):
                    return
            except LogUnavailable as error:  # it has its turn, and tries again
                log.warning("group_unreachable: %s: %s", group, error.sentence)
            except Exception:
                # The lock may be held already: without another attempt the group would stand still.
                log.exception("group_turn_failed: %s", group)

    async def _hold(self, coming: Sequence[_Held]) -> None:
        self._held.update((held.tp, held) for held in coming)
        if self._listener is not None:
            try:
                answer = self._listener.on_partitions_assigned({held.tp for held in coming})
                if answer is not None:
                    await answer
            except Exception:
                # As aiokafka's coordinator does: a listener's bug must not stop the group.
                log.exception("rebalance_listener_failed: %s", sorted(held.tp for held in coming))
        self._wake.set()

    # Reading

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records available, by partition; if there are none, wait up to `timeout_ms`.

        Raises:
            OffsetOutOfRangeError: a position lies outside its partition; it stands still until somebody seeks.
            NoOffsetForPartitionError: a partition has no position, and none may be chosen for it.
            ConsumerStoppedError: `stop` was called.
            LogUnavailable: the file can't be read now.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            self._open()
            self._wake.clear()
            await self._locate()
            if wanted := self._wanted(partitions):
                if found := await self._fetch(wanted, max_records or self._max_records):
                    return found
                continue
            remaining = None if self._patient else deadline - loop.time()
            if remaining is not None and remaining <= 0:
                return {}
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._wake.wait()

    def _wanted(self, partitions: Sequence[TopicPartition]) -> list[_Want]:
        wanted = [
            _Want(held, held.position)
            for held in self._held.values()
            if not (held.paused or held.failed)
            and held.position is not None
            and held.position != self._storage.ends.get(held.id)
            and (not partitions or held.tp in partitions)
        ]
        if wanted:
            # The partition served first goes to the end of the queue, so that a busy one starves no other.
            self._held[wanted[0].held.tp] = self._held.pop(wanted[0].held.tp)
        return wanted

    async def _fetch(self, wanted: list[_Want], max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        got = await self._storage.read(
            lambda connection: _read(connection, wanted, max_records, self._max_partition_bytes)
        )
        self._open()
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        stray: list[str] = []
        for (held, position), part in zip(wanted, got, strict=False):
            self._storage.saw_ends({held.id: part.end})
            if self._held.get(held.tp) is not held or held.position != position or held.paused:
                continue  # assigned again, sought or paused meanwhile
            if part.out_of_range is not None:
                held.failed = True
                log.error("offset_out_of_range: %s", part.out_of_range)
                stray.append(part.out_of_range)
                continue
            held.position = part.position
            if part.records:
                moves = self._storage.moves
                found[held.tp] = [with_position(each, moves) for each in part.records] if moves else part.records
        if stray and not found:
            raise OffsetOutOfRangeError("; ".join(stray))
        return found

    async def _locate(self) -> None:
        for held in [held for held in self._held.values() if held.position is None]:
            position = None if self._group_id is None else await self.committed(held.tp)
            if position is None and self._reset != "none":
                start, end = (await self._bounds(held.tp))[held.tp]
                position = start if self._reset == "earliest" else end
            if position is None:
                raise NoOffsetForPartitionError(f"{held.tp} has no committed offset, and auto_offset_reset is none")
            if held.position is None:  # no seek meanwhile
                held.position = position

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions this consumer reads."""
        return frozenset(self._held)

    def pause(self, *partitions: TopicPartition) -> None:
        """Don't read these partitions until `resume`; they stay assigned."""
        for tp in partitions:
            self._mine(tp).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these again."""
        for tp in partitions:
            self._mine(tp).paused = False
        self._wake.set()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(held.tp for held in self._held.values() if held.paused)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset that is read next."""
        held = self._mine(partition)
        if held.position is None:
            await self._locate()
        position = held.position
        if position is None:
            raise IllegalStateError(f"{partition} has no position")
        return position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`."""
        if offset < 0:
            raise ValueError(f"offset {offset} must not be negative")
        held = self._mine(partition)
        held.position, held.failed = offset, False
        self._wake.set()

    def _mine(self, tp: TopicPartition) -> _Held:
        try:
            return self._held[tp]
        except KeyError:
            raise IllegalStateError(f"{tp} is not assigned") from None

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | tuple[int, str]] | None = None) -> None:
        """Store these offsets, or the positions of all partitions, for the group: all or none.

        Raises:
            CommitFailedError: the partitions were assigned by hand, and the group has a reader.
            IllegalStateError: a partition isn't ours.
            LogUnavailable: nothing was stored.
        """
        if self._group_id is None:
            raise IllegalOperation("a consumer without a group has nowhere to commit")
        self._open()
        if offsets is None:
            offsets = {tp: held.position for tp, held in self._held.items() if held.position is not None}
        wanted = {}
        for tp, value in offsets.items():
            offset, metadata = value if isinstance(value, tuple) else (value, "")
            wanted[self._mine(tp).id] = (offset, metadata)
        change = partial(group_membership.commit, group=self._group_id, offsets=wanted)
        if self._turn is None:
            await group_membership.change_at_rest(self._storage, self._group_id, change)
        else:
            await self._storage.submit(change)

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's offset of the partition, None if it has none."""
        if self._group_id is None:
            raise IllegalOperation("a consumer without a group has no committed offsets")
        return (await committed(self._storage, self._group_id, [await partition_id(self._storage, partition)]))[0]

    async def committed_metadata(self, partition: TopicPartition) -> str:
        """Return what was committed beside the group's offset of the partition; empty if nothing was."""
        group, id_ = self._group_id or "", await partition_id(self._storage, partition)
        found = await self._storage.read(lambda connection: group_membership.committed(connection, group, id_))
        return "" if found is None else found[1]

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each that may be read."""
        return {tp: start for tp, (start, _) in (await self._bounds(*partitions)).items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next offset of each; it never decreases."""
        return {tp: end for tp, (_, end) in (await self._bounds(*partitions)).items()}

    async def _bounds(self, *tps: TopicPartition) -> dict[TopicPartition, tuple[int, int]]:
        ids = [await partition_id(self._storage, tp) for tp in tps]
        return dict(zip(tps, await bounds(self._storage, ids), strict=True))


async def partition_id(storage: Storage, tp: TopicPartition) -> int:
    """Return the partition's row id."""
    known: KnownTopic = await storage.topic(tp.topic)
    number: int = tp.partition
    if number not in range(len(known.ids)):
        raise UnknownTopicOrPartitionError(f"{tp.topic} has {len(known.ids)} partitions, but no partition {number}")
    return known.ids[number]


async def bounds(storage: Storage, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first readable and the next offset of each partition, all of one moment."""
    return await storage.read(lambda connection: [bounds_of(connection, id_) for id_ in ids])


def bounds_of(connection: sqlite3.Connection, id_: int) -> tuple[int, int]:
    """Return the partition's first readable and its next offset."""
    row: tuple[int, int] = connection.execute("SELECT start, next FROM partition WHERE id = ?", (id_,)).fetchone()
    return row


async def committed(storage: Storage, group: str, ids: Sequence[int]) -> list[int | None]:
    """Return the group's offset of each partition, None if it has none, all of one moment."""

    def query(connection: sqlite3.Connection) -> list[int | None]:
        found = (group_membership.committed(connection, group, id_) for id_ in ids)
        return [None if each is None else each[0] for each in found]

    return await storage.read(query)


def first_since(connection: sqlite3.Connection, id_: int, time: int) -> tuple[int, int] | None:
    """Return (offset, time) of the partition's first record with that time or later.

    Append times never fall within a partition, so it is a binary search, not a scan.
    """
    low, high = bounds_of(connection, id_)
    found: tuple[int, int] | None = None
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(
            "SELECT offset, time FROM record WHERE partition = ? AND offset >= ? ORDER BY offset LIMIT 1", (id_, middle)
        ).fetchone()
        if row is None or row[1] >= time:
            found = row or found
            high = middle
        else:
            low = row[0] + 1
    return found


def _read(connection: sqlite3.Connection, wanted: Sequence[_Want], max_records: int, max_bytes: int) -> list[_Got]:
    """Return the next records of each partition, up to the limits; one record always fits."""
    got: list[_Got] = []
    room = _FETCH_BYTES
    for held, position in wanted:
        if max_records <= 0 or room <= 0:
            break
        start, end = bounds_of(connection, held.id)
        if not start <= position <= end:
            sentence = (
                f"offset {position} of {held.tp.topic}/{held.tp.partition} is out of range: "
                f"the log holds {start} to {end}; seek to an offset"
            )
            got.append(_Got([], position, end, sentence))
            continue
        records: list[ConsumerRecord] = []
        size = 0
        rows = connection.execute(
            "SELECT offset, time, key, headers, value FROM record WHERE partition = ? AND offset >= ? "
            "ORDER BY offset LIMIT ?",
            (held.id, position, max_records),
        )
        cut = False
        for offset, time, key, headers, value in rows:
            records.append(record_of(held.tp, offset, time, key, headers, value))
            size += len(value or b"") + len(key or b"") + len(headers)
            if size >= min(max_bytes, room):
                cut = True
                break
        rows.close()
        max_records -= len(records)
        room -= size
        # Nothing follows the last record: all between it and the end was compacted away.
        whole = not cut and max_records > 0
        got.append(_Got(records, end if whole else records[-1].offset + 1, end))
    return got


def record_of(  # noqa: PLR0917 - a row's columns, in their order
    tp: TopicPartition, offset: int, time: int, key: bytes | None, headers: bytes, value: bytes | None
) -> ConsumerRecord:
    """Return a row of the table as a record."""
    return ConsumerRecord(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        timestamp=time,
        timestamp_type=_LOG_APPEND_TIME,
        key=key,
        value=value,
        checksum=None,
        serialized_key_size=len(key or b""),
        serialized_value_size=len(value or b""),
        headers=tuple(_headers.decode(headers)),
    )
