"""Compaction from a list: which records have a later one of their key, and which are tombstones.

Each record of a compacted topic is read once for the list; after that, a compaction reads the list and what was written
since. docs/adr/0003-sqlite-log.md
"""

import asyncio
import sqlite3
import time
from functools import partial
from typing import Final

from shared.log.sqlite.clock import end_at, forget_milestones
from shared.log.sqlite.storage import Storage, Transaction

# How long a tombstone stays, so that a reader that lags still learns that the key was deleted.
TOMBSTONE_MS: Final = 24 * 3600 * 1000
FULL_PASS_MS: Final = 7 * TOMBSTONE_MS  # after this long, the list is made again from all records
_SLICE: Final = 500  # rows of one transaction, for which writers wait
_SUPERSEDED, _TOMBSTONE = 0, 1

# The last record of a partition always stays: a reader that has reached it has reached the end.
_OLD_TOMBSTONES = """
SELECT dirty.offset FROM dirty JOIN listing USING (partition) JOIN partition ON partition.id = partition
WHERE partition = :partition AND kind = 1 AND dirty.offset < min(:before, listed, next - 1) LIMIT :limit
"""


async def compact(storage: Storage, topic: str) -> int:
    """Delete records with a later one of the same key, and nulls older than a day; return how many.

    Records younger than the topic's compaction lag replace and delete nothing yet: they aren't listed.

    The list is on disk before anything is deleted. A record is deleted and taken off the list in one transaction, so a
    crash leaves nothing that the next compaction wouldn't find.
    """
    known = await storage.topic(topic)
    age = await storage.tick()
    kept = max(TOMBSTONE_MS, known.spec.compaction_lag_ms, known.spec.retention_ms or 0)
    gone = 0
    for partition in known.ids:
        await storage.submit(partial(_begin, partition=partition, age=age, kept=kept))
        began = time.monotonic()
        young = age - known.spec.compaction_lag_ms if known.spec.compaction_lag_ms else None
        while await storage.submit(partial(_list, storage, partition=partition, young=young)):
            # A full pass takes at most half of the writer's time.
            await asyncio.sleep(time.monotonic() - began)
            began = time.monotonic()
        # In this order: a null may be deleted only after all records it covers.
        while (deleted := await storage.submit(partial(_delete_superseded, storage, partition=partition))) is not None:
            gone += deleted
        old = partial(_delete_tombstones, storage, partition=partition, old=age - TOMBSTONE_MS)
        while (deleted := await storage.submit(old)) is not None:
            gone += deleted
    return gone


def forget_list(connection: sqlite3.Connection, partition: int) -> None:
    """Delete the partition's list. Call it within a transaction that makes all its records unreadable."""
    connection.execute("DELETE FROM listing WHERE partition = ?", (partition,))
    connection.execute("DELETE FROM newest WHERE partition = ?", (partition,))
    connection.execute("DELETE FROM dirty WHERE partition = ?", (partition,))


def _begin(transaction: Transaction, partition: int, age: int, kept: int) -> None:
    """Begin the list again from the first record on, if it is a week old or there is none.

    Milestones that are older than `kept` (ms) go.
    """
    connection = transaction.connection
    forget_milestones(connection, partition, age - kept)
    row = connection.execute("SELECT begun FROM listing WHERE partition = ?", (partition,)).fetchone()
    if row is None or age >= row[0] + FULL_PASS_MS:
        connection.execute(
            "INSERT INTO listing(partition, listed, begun) VALUES (?, 0, ?) "
            "ON CONFLICT (partition) DO UPDATE SET listed = 0, begun = excluded.begun",
            (partition, age),
        )


def _list(storage: Storage, transaction: Transaction, partition: int, young: int | None) -> bool:
    """List some more records; return whether there may be others. Repeating it changes nothing.

    Records that were written when the log was older than `young` (ms) stay off the list; None: none does.
    """
    connection = transaction.connection
    transaction.write_tails()  # records of this transaction are listed, too
    (end,) = connection.execute("SELECT next FROM partition WHERE id = ?", (partition,)).fetchone()
    if young is not None:
        end = min(end, end_at(connection, partition, young))
    (listed,) = connection.execute("SELECT listed FROM listing WHERE partition = ?", (partition,)).fetchone()
    # `value IS NULL` is in the row's header: the value itself isn't read.
    rows = connection.execute(
        "SELECT offset, key, value IS NULL FROM record WHERE partition = ? AND offset >= ? AND offset < ? "
        "ORDER BY offset LIMIT ?",
        (partition, listed, end, _SLICE),
    ).fetchall()
    for offset, key, null in rows:
        if key is not None:
            _list_record(connection, partition, offset, key, null=bool(null))
    listed = rows[-1][0] + 1 if len(rows) == _SLICE else max(listed, end)
    connection.execute(
        "UPDATE listing SET listed = ?1, replaced = max(replaced, ?1) WHERE partition = ?2", (listed, partition)
    )
    storage.step("listed")
    return len(rows) == _SLICE


def _list_record(connection: sqlite3.Connection, partition: int, offset: int, key: bytes, *, null: bool) -> None:
    row = connection.execute("SELECT offset FROM newest WHERE partition = ? AND key = ?", (partition, key)).fetchone()
    superseded = None
    if row is None or row[0] < offset:
        superseded = None if row is None else row[0]
        connection.execute(
            "INSERT OR REPLACE INTO newest(partition, key, offset) VALUES (?, ?, ?)", (partition, key, offset)
        )
    elif row[0] > offset:
        superseded = offset
    if null and superseded != offset:
        _mark(connection, partition, _TOMBSTONE, offset)
    if superseded is not None:
        connection.execute(
            "DELETE FROM dirty WHERE partition = ? AND kind = ? AND offset = ?", (partition, _TOMBSTONE, superseded)
        )
        _mark(connection, partition, _SUPERSEDED, superseded)


def _mark(connection: sqlite3.Connection, partition: int, kind: int, offset: int) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO dirty(partition, kind, offset) VALUES (?, ?, ?)", (partition, kind, offset)
    )


def _delete_superseded(storage: Storage, transaction: Transaction, partition: int) -> int | None:
    """Return how many records were deleted; None if none was left on the list."""
    rows = transaction.connection.execute(
        "SELECT offset FROM dirty WHERE partition = ? AND kind = ? LIMIT ?", (partition, _SUPERSEDED, _SLICE)
    ).fetchall()
    return _delete(storage, transaction.connection, partition, _SUPERSEDED, [offset for (offset,) in rows])


def _delete_tombstones(storage: Storage, transaction: Transaction, partition: int, old: int) -> int | None:
    """Return how many records were deleted; None if none was left that may go."""
    connection = transaction.connection
    wanted = {"partition": partition, "before": end_at(connection, partition, old), "limit": _SLICE}
    offsets = [offset for (offset,) in connection.execute(_OLD_TOMBSTONES, wanted)]
    connection.executemany(
        "DELETE FROM newest WHERE partition = ?1 AND offset = ?2 "
        "AND key = (SELECT key FROM record WHERE partition = ?1 AND offset = ?2)",
        [(partition, offset) for offset in offsets],
    )
    return _delete(storage, connection, partition, _TOMBSTONE, offsets)


def _delete(
    storage: Storage, connection: sqlite3.Connection, partition: int, kind: int, offsets: list[int]
) -> int | None:
    """Delete these records, and take them off the list."""
    if not offsets:
        return None
    deleted = connection.executemany(
        "DELETE FROM record WHERE partition = ? AND offset = ?", [(partition, offset) for offset in offsets]
    ).rowcount
    connection.executemany(
        "DELETE FROM dirty WHERE partition = ? AND kind = ? AND offset = ?",
        [(partition, kind, offset) for offset in offsets],
    )
    storage.step("swept")
    return deleted
