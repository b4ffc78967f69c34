"""Erases before the retention does: overwrites records in place, and rewrites the file."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from aiokafka import TopicPartition

from shared.log import LogUnavailable, Record, Replacement
from shared.log.headers import with_position
from shared.log.sqlite.consumer import record_of
from shared.log.sqlite.file import scanning
from shared.log.sqlite.storage import Storage, Transaction
from shared.log.sqlite.upkeep import emptied

_SLICE = 200  # rows of one transaction, for which writers wait
_TRIES = 240  # of a checkpoint: two minutes, because another erasure or a backup may read a large partition as long
_PAUSE_S = 0.4  # between two tries, for writers


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
            for start in range(0, len(changes), _SLICE):
                await storage.submit(partial(_write, storage, changes[start : start + _SLICE]))
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
    for _ in range(_TRIES):
        if await storage.maintain(partial(emptied, storage)):
            return
        await asyncio.sleep(_PAUSE_S)
    raise LogUnavailable(f"{storage.path.name}-wal can't be emptied: it is being read all the time", "busy")
