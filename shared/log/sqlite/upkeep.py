"""Retention, freeing disk space, and when upkeep runs; and erasure before that: records are overwritten in place."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from aiokafka import TopicPartition

from shared.log import LogUnavailable, Record, Replacement
from shared.log.headers import with_position
from shared.log.sqlite import compaction
from shared.log.sqlite.clock import end_at, forget_milestones
from shared.log.sqlite.consumer import record_of
from shared.log.sqlite.file import scanning
from shared.log.sqlite.storage import Storage, Transaction

log = logging.getLogger(__name__)

_SLICE = 500  # rows of one transaction, for which writers wait
_OVERWRITTEN = 200  # likewise, of records with their values
_CHECKPOINTS = 240  # tries of one: two minutes, because another erasure or a backup may read a large partition as long
_PAUSE_S = 0.4  # between two tries, for writers
_READERS_MS = 100  # wait for readers, for which writers wait, too
_FREE_PAGES = 2000  # freed per step: 8 MB


async def retain(storage: Storage, topic: str) -> int:
    """Delete the records that an upkeep first saw longer ago than the topic's retention; return how many.

    Their age is measured by the log's own clock (`age`), not by the wall clock. Records that a group has yet to read
    stay, however old they are.
    """
    known = await storage.topic(topic)
    age = await storage.tick()
    if known.spec.retention_ms is None:
        return 0
    old = age - known.spec.retention_ms
    gone = 0
    for partition in known.ids:
        # First the bound, which takes effect at once; then the rows below it, including those an earlier run left.
        await storage.submit(partial(_raise_start, partition=partition, old=old))
        while deleted := await storage.submit(partial(_delete_below_start, storage, partition=partition)):
            gone += deleted
    return gone


async def drop(storage: Storage, topic: str) -> None:
    """Delete all records of the topic, read or not."""
    for partition in (await storage.topic(topic)).ids:

        def raise_start(transaction: Transaction, partition: int = partition) -> None:
            transaction.connection.execute("UPDATE partition SET start = next WHERE id = ?", (partition,))
            compaction.forget_list(transaction.connection, partition)

        await storage.submit(raise_start)
        while await storage.submit(partial(_delete_below_start, storage, partition=partition)):
            pass


def _raise_start(transaction: Transaction, partition: int, old: int) -> None:
    transaction.connection.execute(
        "UPDATE partition SET start = max(start, min(:start, "
        "coalesce((SELECT min(offset) FROM committed WHERE partition = :partition), next))) WHERE id = :partition",
        {"start": end_at(transaction.connection, partition, old), "partition": partition},
    )
    forget_milestones(transaction.connection, partition, old)
    # Of a compacted topic: else the list would keep each key for ever.
    transaction.connection.execute(
        "DELETE FROM newest WHERE partition = ?1 AND offset < (SELECT start FROM partition WHERE id = ?1)", (partition,)
    )


def _delete_below_start(storage: Storage, transaction: Transaction, partition: int) -> int:
    deleted = transaction.connection.execute(
        "DELETE FROM record WHERE rowid IN (SELECT record.rowid FROM record JOIN partition ON partition.id = partition "
        "WHERE partition = ? AND offset < start LIMIT ?)",
        (partition, _SLICE),
    ).rowcount
    storage.step("swept")
    return deleted


def emptied(storage: Storage, connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the file; return whether no reader kept it from being emptied."""
    (usual,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {_READERS_MS}")
    try:
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        connection.execute(f"PRAGMA busy_timeout = {usual}")
    storage.step("checkpointed")
    return not busy


async def give_room_back(storage: Storage) -> None:
    """Move the write-ahead log into the file, and truncate the file's free end."""

    def checkpoint(connection: sqlite3.Connection) -> int:
        emptied(storage, connection)
        free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
        return free

    def vacuum(connection: sqlite3.Connection) -> None:
        # `executescript`, because `execute` runs one step of this statement, which frees a single page.
        connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES})")

    for _ in range(0, await storage.maintain(checkpoint), _FREE_PAGES):
        await storage.maintain(vacuum)
    await storage.maintain(checkpoint)


class _Change(NamedTuple):
    key: bytes | None
    headers: bytes
    value: bytes | None
    partition: int
    offset: int


async def overwrite(storage: Storage, instead: Callable[[Record], Replacement | None]) -> int:
    """Overwrite the records for which `instead` returns a replacement; return how many.

    Compacted topics without a compaction lag are left out: the next upkeep deletes what was replaced there.
    """
    await storage.refresh()
    count = 0
    for known in tuple(storage.topics.values()):
        if known.spec.cleanup == "compact" and not known.spec.compaction_lag_ms:
            continue
        for number, id_ in enumerate(known.ids):
            tp = TopicPartition(known.spec.name, number)
            changes = await asyncio.to_thread(_changes, storage, tp, id_, instead)
            for start in range(0, len(changes), _OVERWRITTEN):
                await storage.submit(partial(_write, storage, changes[start : start + _OVERWRITTEN]))
            count += len(changes)
    return count


def _changes(
    storage: Storage, tp: TopicPartition, id_: int, instead: Callable[[Record], Replacement | None]
) -> list[_Change]:
    changes = []
    with scanning(storage.path, storage.connect) as connection:
        rows = connection.execute(
            "SELECT offset, time, key, headers, value FROM record WHERE partition = ? ORDER BY offset", (id_,)
        )
        for offset, *rest in rows:
            new = instead(with_position(record_of(tp, offset, *rest), storage.moves))
            if new is not None:
                headers = msgspec.msgpack.encode([(name, text.encode()) for name, text in new.headers.items()])
                changes.append(_Change(new.key, headers, new.value, id_, offset))
    return changes


def _write(storage: Storage, changes: Sequence[_Change], transaction: Transaction) -> None:
    transaction.connection.executemany(
        "UPDATE record SET key = ?, headers = ?, value = ? WHERE partition = ? AND offset = ?", changes
    )
    storage.step("swept")


async def vacuum(storage: Storage) -> None:
    """Rewrite the file from its rows, then empty the write-ahead log.

    Raises:
        LogUnavailable: the disk has no room for a second copy, or readers kept the old one in use all the time.
    """

    def rewrite(connection: sqlite3.Connection) -> None:
        connection.execute("VACUUM")

    await storage.maintain(rewrite)
    for _ in range(_CHECKPOINTS):
        if await storage.maintain(partial(emptied, storage)):
            return
        await asyncio.sleep(_PAUSE_S)
    raise LogUnavailable(f"{storage.path.name}-wal can't be emptied: it is being read all the time", "busy")


async def keep_up(storage: Storage) -> None:
    """Compact or apply the retention to each topic as configured, then free disk space."""
    for known in tuple(storage.topics.values()):
        if known.spec.cleanup == "compact":
            await compaction.compact(storage, known.spec.name)
        await retain(storage, known.spec.name)
    await give_room_back(storage)
