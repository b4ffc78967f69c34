"""The log as one SQLite file: FastStream's KafkaBroker on an append-only table, for one machine.

Records are on disk (synchronous=FULL) before a send is answered. Any number of processes may use the
file at the same time. Not for a network file system: SQLite's shared memory doesn't reach across it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, UnknownTopicOrPartitionError
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, Unavailable
from shared.log import Commits, GroupMember, Log, LogUnavailable, Record, Replacement
from shared.log.background import repeat
from shared.log.faststream_driver import Driver, DriverBroker
from shared.log.sqlite import copying, group_membership, upkeep
from shared.log.sqlite.consumer import Consumer, bounds, bounds_of, committed, first_since, partition_id
from shared.log.sqlite.file import Connect, boot_clock, connect, scanning
from shared.log.sqlite.producer import Producer
from shared.log.sqlite.storage import STEPS, KnownTopic, Step, Storage, Transaction
from shared.settings import ConfigurationError
from shared.times import now_ms
from shared.topics import Topic, TopicDifference, TopicInspection, moves_of, partitions_differ

T = TypeVar("T")
log = logging.getLogger(__name__)

_AGAIN_S = 10.0  # until another upkeep while the log is being copied

__all__ = ["STEPS", "LogUnavailable", "SqliteLog", "deleting"]


class SqliteLog:
    """`shared.log.Log` in a file, where its methods are described.

    `connect`, `step` (called with each of STEPS as it is reached), `now` (ms since 1970) and `boot` (seconds since the
    machine started) are for tests.
    """

    def __init__(
        self,
        path: Path,
        *,
        upkeep_every_s: float = 3600.0,
        connect: Connect = connect,
        step: Step = lambda _: None,
        now: Callable[[], int] = now_ms,
        boot: Callable[[], float] = boot_clock,
    ) -> None:
        self._upkeep_every_s = upkeep_every_s
        self._repeated = AsyncExitStack()
        self._storage = Storage(path, connect=connect, step=step, now=now, boot=boot)

    @property
    def moves(self) -> int:
        return self._storage.moves

    async def start(self) -> None:
        """Open the file, or create it.

        Raises:
            ConfigurationError: it is no log of ours, or has another format.
            LogUnavailable: it can't be opened now.
        """
        await self._storage.start()
        self._storage.moves = moves_of(await self._storage.read(_found))
        # Not at once, so that a machine that was off for long reads its records first.
        repeat(self._repeated, self._keep_up_when_free, self._upkeep_every_s, "upkeep_failed", at_once=False)

    async def stop(self) -> None:
        """Write the queued records, then close; stop all its brokers before."""
        await self._repeated.aclose()
        await self._storage.stop()

    def broker(self, client_id: str) -> KafkaBroker:
        storage = self._storage
        return DriverBroker(Driver(partial(Producer, storage), partial(Consumer, storage, patient=True)), client_id)

    def consumer(self, *, group_id: str | None = None, **options: Any) -> Consumer:
        """Return an unstarted consumer with aiokafka's methods; `auto_offset_reset` is "none" unless given."""
        return Consumer(self._storage, group_id=group_id, **options)

    async def ensure_topics(self, topics: Iterable[Topic]) -> None:
        """Create missing topics; existing ones get the wanted retention and size limit, and may become compacted.

        Raises:
            ConfigurationError: an existing topic is compacted but must keep every record; no topic was created.
            LogUnavailable: the file can't be written now; no topic was made.
        """
        wanted = tuple(topics)
        await self._storage.submit(lambda transaction: _ensure(transaction, wanted))
        await self._storage.refresh()

    async def drop_topic(self, topic: str) -> None:
        """Delete the topic's records. Its name and partitions stay, because a partition's id is never used again."""
        await upkeep.drop(self._storage, topic)

    async def inspect_topics(self, topics: Iterable[Topic]) -> tuple[TopicInspection, ...]:
        wanted = tuple(topics)
        found = await self._storage.read(_found)
        return tuple(_inspection(topic, found.get(topic.name)) for topic in wanted)

    async def retention_ms(self, topic: str) -> int | None:
        return (await self._known(topic)).spec.retention_ms

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        return _by_partition(topic, await committed(self._storage, group_id, (await self._known(topic)).ids))

    async def groups(self) -> tuple[str, ...]:
        names = "SELECT DISTINCT consumer_group FROM committed ORDER BY 1"
        rows = await self._storage.read(lambda connection: connection.execute(names).fetchall())
        return tuple(name for (name,) in rows)

    async def members(self, group_id: str) -> tuple[GroupMember, ...]:
        """Return the consumer that reads for the group, if one does; those that wait for their turn aren't known."""
        id_ = group_membership.reader(self._storage.path, group_id)
        if id_ is None:
            return ()
        rows = await self._storage.read(lambda connection: connection.execute(_PARTITIONS, (group_id,)).fetchall())
        return (GroupMember(id_, id_, "localhost", frozenset(TopicPartition(*row) for row in rows)),)

    async def reset_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = {await partition_id(self._storage, tp): (offset, "") for tp, offset in offsets.items()}
        await self._of_idle_group(group_id, partial(group_membership.commit, group=group_id, offsets=wanted))

    async def drop_group(self, group_id: str) -> None:
        await self._of_idle_group(group_id, partial(group_membership.drop, group=group_id))

    async def _of_idle_group(self, group: str, change: Callable[[Transaction], None]) -> None:
        try:
            await group_membership.change_at_rest(self._storage, group, change)
        except CommitFailedError as error:
            raise Rejected(f"{error}; stop them first", "group_busy") from error

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        return _by_partition(topic, [end for _, end in await bounds(self._storage, (await self._known(topic)).ids)])

    async def offsets_since(self, topic: str, time: int) -> dict[TopicPartition, int]:
        ids = (await self._known(topic)).ids

        def query(connection: sqlite3.Connection) -> list[int]:
            return [
                first[0] if (first := first_since(connection, id_, time)) else bounds_of(connection, id_)[1]
                for id_ in ids
            ]

        return _by_partition(topic, await self._storage.read(query))

    async def replaced_below(self, topic: str) -> dict[TopicPartition, int]:
        known = await self._known(topic)
        replaced = await self._storage.read(lambda connection: dict(connection.execute(_REPLACED)))
        return {TopicPartition(topic, number): replaced.get(id_, 0) for number, id_ in enumerate(known.ids)}

    async def age_ms(self) -> int:
        """Return how many ms have passed since the first upkeep by the machine's clocks; it never decreases."""
        return await self._storage.tick()

    async def topic_bytes(self) -> dict[str, int]:
        """Return the bytes of each topic's records: keys, values and headers."""

        def measured() -> dict[str, int]:
            with scanning(self._storage.path, self._storage.connect) as connection:  # an index entry of each record
                return dict(connection.execute(_TOPIC_BYTES))

        return await asyncio.to_thread(measured)

    async def ahead_ms(self) -> int:
        """Return how many ms the newest record's time is ahead of the clock, at least 0."""
        newest: int = await self._storage.read(
            lambda connection: connection.execute("SELECT coalesce(max(time), 0) FROM partition").fetchone()[0]
        )
        return max(0, newest - self._storage.now())

    async def keep_up(self) -> None:
        """Compact, apply the retention, and free space; this also happens by itself at intervals.

        Raises:
            Unavailable: the file can't be written now; or, code `held_for_copy`, it is being copied.
        """
        with self.deleting():
            await upkeep.keep_up(self._storage)

    async def _keep_up_when_free(self) -> None:
        while True:
            try:
                return await self.keep_up()
            except Unavailable as error:
                if error.code != copying.HELD:
                    raise
                log.warning("upkeep_waits: %s", error.sentence)
            await asyncio.sleep(min(self._upkeep_every_s, _AGAIN_S))

    def disk_bytes(self) -> int:
        """Return the bytes of the file and its write-ahead log, by their directory entries: nothing is opened."""
        path = self._storage.path
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*") if each.is_file())

    def deleting(self) -> AbstractContextManager[None]:
        """Keep copies from starting while the block deletes; during a copy, raise Unavailable, code `held_for_copy`."""
        return copying.deleting(self._storage.path)

    def copying(self, patience_s: float) -> AbstractAsyncContextManager[None]:
        """Keep everybody from deleting while the block copies; wait `patience_s` for deletions to finish."""
        return copying.copying(self._storage.path, patience_s)

    async def commits(self) -> Commits:
        """Return the committed offsets of all groups."""
        found = "SELECT consumer_group, partition, offset, metadata FROM committed"
        return await self._storage.read(lambda connection: connection.execute(found).fetchall())

    async def copy_to(self, path: Path, commits: Commits) -> None:
        """Write the log as of one moment into a new file, with these committed offsets instead of its own."""
        await asyncio.to_thread(copying.copy, self._storage.path, self._storage.connect, path, commits)

    async def overwrite(self, instead: Callable[[Record], Replacement | None]) -> int:
        """Return how many records were overwritten, headers included: those for which `instead` returned a replacement.

        `instead` is called in a thread, for each record of each topic, except compacted ones without a compaction lag.
        """
        return await upkeep.overwrite(self._storage, instead)

    async def forget(self) -> None:
        """Return when the file contains only its current records. It is rewritten, and writers wait meanwhile."""
        await upkeep.keep_up(self._storage)
        await upkeep.vacuum(self._storage)

    async def _known(self, topic: str) -> KnownTopic:
        try:
            return await self._storage.topic(topic)
        except UnknownTopicOrPartitionError as error:
            raise LogUnavailable(str(error), "log_unavailable") from error


def _by_partition(topic: str, values: Iterable[T]) -> dict[TopicPartition, T]:
    return {TopicPartition(topic, number): value for number, value in enumerate(values)}


def deleting(log: Log) -> AbstractContextManager[None]:
    """Keep copies of the log from starting while the block deletes what they may need.

    Raises:
        Unavailable: code `held_for_copy`: the log is being copied.
    """
    return log.deleting() if isinstance(log, SqliteLog) else nullcontext()


# Who begins to read for a group gives it an offset of each partition.
_PARTITIONS = """
SELECT topic.name, number FROM committed JOIN partition ON partition.id = committed.partition
JOIN topic ON topic.id = partition.topic WHERE consumer_group = ?
"""
_TOPIC_BYTES = """
SELECT topic.name, coalesce(sum(length(value)), 0) + coalesce(sum(length(record.key)), 0)
    + coalesce(sum(length(headers)), 0)
FROM topic JOIN partition ON partition.topic = topic.id LEFT JOIN record ON record.partition = partition.id
GROUP BY topic.id
"""
_REPLACED = "SELECT partition, max(listed, replaced) FROM listing"


class _Found(NamedTuple):
    partitions: int
    cleanup: str


def _found(connection: sqlite3.Connection) -> dict[str, _Found]:
    rows = connection.execute("SELECT name, partitions, cleanup FROM topic")
    return {name: _Found(*rest) for name, *rest in rows}


def _inspection(topic: Topic, found: _Found | None) -> TopicInspection:
    """Return how the topic differs, except in what `ensure_topics` changes by itself."""
    if found is None:
        return TopicInspection(topic=topic.name)
    differences = [*partitions_differ(topic, found.partitions, grow=None)]
    if (found.cleanup, topic.cleanup) == ("compact", "delete"):
        cleanup = TopicDifference(
            weight="unfit",
            what="cleanup",
            found=found.cleanup,
            wanted=topic.cleanup,
            why="what was compacted can't come back",
            mend="choose another SLUICE_LOG, or another SLUICE_DATA",
        )
        differences.insert(0, cleanup)
    return TopicInspection(topic=topic.name, partitions=found.partitions, differences=tuple(differences))


_UPDATE = """
UPDATE topic SET cleanup = :cleanup, retention_ms = :retention_ms, max_record_bytes = :max_record_bytes,
    compaction_lag_ms = :compaction_lag_ms WHERE name = :name
"""
_INSERT = """
INSERT INTO topic(name, partitions, cleanup, retention_ms, max_record_bytes, compaction_lag_ms)
VALUES (:name, :partitions, :cleanup, :retention_ms, :max_record_bytes, :compaction_lag_ms)
"""


def _ensure(transaction: Transaction, topics: Iterable[Topic]) -> None:
    connection = transaction.connection
    found = _found(connection)
    for topic in topics:
        for sentence in _inspection(topic, found.get(topic.name)).sentences("unfit"):
            raise ConfigurationError(f"{sentence}, and compacted records can't be restored")
    for topic in topics:
        spec = msgspec.structs.asdict(topic)
        if topic.name in found:
            connection.execute(_UPDATE, spec)
            continue
        id_ = connection.execute(_INSERT, spec).lastrowid
        connection.executemany(
            "INSERT INTO partition(topic, number) VALUES (?, ?)", [(id_, number) for number in range(topic.partitions)]
        )
