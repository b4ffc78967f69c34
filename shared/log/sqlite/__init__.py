"""The log as one SQLite file: FastStream's KafkaBroker on an append-only table, for one machine.

Records are on disk (synchronous=FULL) before a send is answered. Any number of processes may use the
file at the same time. Not for a network file system: SQLite's shared memory doesn't reach across it.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition
from faststream.kafka import KafkaBroker

from shared.log.seam import DriverBroker
from shared.log.sqlite import upkeep
from shared.log.sqlite.consumer import Consumer, bounds, committed
from shared.log.sqlite.errors import LogUnavailable
from shared.log.sqlite.file import Connect, connect
from shared.log.sqlite.producer import Producer
from shared.log.sqlite.storage import STEPS, Step, Storage, Transaction, wall_clock_ms
from shared.settings import ConfigurationError
from shared.topics import Topic

__all__ = ["STEPS", "LogUnavailable", "SqliteLog"]


class SqliteLog:
    """`shared.log.Log` in a file.

    `connect`, `step` (called with each of STEPS as it is reached) and `now` (ms since 1970) are for tests.
    """

    def __init__(
        self,
        path: Path,
        *,
        upkeep_every_s: float = 3600.0,
        connect: Connect = connect,
        step: Step = lambda _: None,
        now: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._connect = connect
        self._upkeep_every_s = upkeep_every_s
        self._upkeep: asyncio.Task[None] | None = None
        self._storage = Storage(path, connect=connect, step=step, now=now)

    async def start(self) -> None:
        """Open the file, or make it.

        Raises:
            ConfigurationError: it is no log of ours, or a newer version's.
            LogUnavailable: it can't be opened now.
        """
        await self._storage.start()
        self._upkeep = asyncio.create_task(
            upkeep.keep_up_for_ever(self._storage, self._connect, self._upkeep_every_s), name="log-upkeep"
        )

    async def stop(self) -> None:
        """Write what is queued, then close; brokers made from it must have been stopped."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        await self._storage.stop()

    def broker(self, client_id: str) -> KafkaBroker:
        """Return a new broker on this log: acks=all, policy MANUAL. Its owner starts and stops it."""
        return DriverBroker(_Driver(self._storage), client_id)

    def consumer(self, *, group_id: str | None = None, **options: Any) -> Consumer:
        """Return an unstarted consumer with aiokafka's methods; `auto_offset_reset` is "none" unless given."""
        return Consumer(self._storage, group_id=group_id, **options)

    async def ensure_topics(self, topics: Iterable[Topic]) -> None:
        """Create what is missing, and take over retention and the limit of what is there.

        Raises:
            ConfigurationError: a topic is there with other partitions or another cleanup.
            LogUnavailable: the file can't be written now; no topic was made.
        """
        wanted = tuple(topics)
        await self._storage.submit(lambda transaction: _ensure(transaction, wanted))
        await self._storage.refresh()

    async def committed(self, group_id: str, topic: str) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset of each partition, None where there is none."""
        return {tp: await committed(self._storage, group_id, tp) for tp in await self._partitions(topic)}

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition; it never falls."""
        known = await self._storage.topic(topic)
        return {
            TopicPartition(topic, number): (await bounds(self._storage, id_))[1] for number, id_ in enumerate(known.ids)
        }

    async def compact(self, topic: str) -> int:
        """Return how many records went: those with a later one of the same key, and nulls older than a day."""
        return await upkeep.compact(self._storage, self._connect, topic)

    async def retain(self, topic: str, now: int) -> int:
        """Return how many records went: those older than the topic's retention at `now`, ms since 1970."""
        return await upkeep.retain(self._storage, topic, now)

    async def keep_up(self) -> None:
        """Compact, retain, and give room back, as happens by itself every so often."""
        await upkeep.keep_up(self._storage, self._connect)

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(len((await self._storage.topic(topic)).ids))]


class _Driver:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def producer(self) -> Producer:
        return Producer(self._storage)

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self._storage, patient=True, **options)

    async def describe_cluster(self) -> dict[str, Any]:
        await self._storage.read(lambda connection: connection.execute("SELECT 1").fetchone())
        return {}


def _ensure(transaction: Transaction, topics: Iterable[Topic]) -> None:
    connection = transaction.connection
    found = {
        name: (id_, partitions, cleanup)
        for id_, name, partitions, cleanup in connection.execute("SELECT id, name, partitions, cleanup FROM topic")
    }
    for topic in topics:
        if topic.name in found and found[topic.name][1:] != (topic.partitions, topic.cleanup):
            _, partitions, cleanup = found[topic.name]
            raise ConfigurationError(
                f"the topic {topic.name} has {partitions} partitions and cleanup {cleanup}; "
                f"{topic.partitions} and {topic.cleanup} were asked for, and neither can change once records are in it"
            )
    for topic in topics:
        if topic.name in found:
            connection.execute(
                "UPDATE topic SET retention_ms = ?, max_record_bytes = ? WHERE id = ?",
                (topic.retention_ms, topic.max_record_bytes, found[topic.name][0]),
            )
            continue
        id_ = connection.execute(
            "INSERT INTO topic(name, partitions, cleanup, retention_ms, max_record_bytes) VALUES (?, ?, ?, ?, ?)",
            (topic.name, topic.partitions, topic.cleanup, topic.retention_ms, topic.max_record_bytes),
        ).lastrowid
        connection.executemany(
            "INSERT INTO partition(topic, number) VALUES (?, ?)", [(id_, number) for number in range(topic.partitions)]
        )
