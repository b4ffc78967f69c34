"""Consumer groups: one consumer of a group reads at a time, and the others wait for their turn.

Whoever reads holds a lock on a file beside the log. The lock ends with its process, however that ends, so nobody has to
be taken for dead. Who wants several workers for one stage needs Kafka.
"""

import asyncio
import fcntl
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from aiokafka.errors import CommitFailedError

from shared.log import LogUnavailable
from shared.log.sqlite.file import FileLock
from shared.log.sqlite.storage import Operation, Storage, Transaction


class GroupTurn(FileLock):
    """A consumer's place in its group."""

    def __init__(self, log: Path, group: str) -> None:
        """Take the path of the log's file.

        Raises:
            LogUnavailable: the group's file can't be opened now.
        """
        path = _path(log, group)
        try:
            path.parent.mkdir(exist_ok=True)
            super().__init__(path)
        except OSError as error:
            sentence = f"the log {log.name} can't lock the group {group}: {error.strerror}"
            raise LogUnavailable(sentence, "log_unavailable") from error

    def take(self, member: str) -> bool:
        """Return whether the member with this id reads from now on; False: another one does."""
        taken = self.try_lock()
        if taken:
            with suppress(OSError):  # a full disk: only who asks for the group's members reads the file
                self.write(member.encode())
        return taken


def reader(log: Path, group: str) -> str | None:
    """Return the id of who reads for the group now; None: nobody. Nothing is created.

    Raises:
        LogUnavailable: the group's file can't be read now.
    """
    if not _path(log, group).exists():
        return None
    with closing(GroupTurn(log, group)) as turn:
        # Empty: it has only just begun, or the disk is full.
        return None if turn.try_lock(fcntl.LOCK_SH) else _path(log, group).read_text() or "unknown"


async def change_at_rest(storage: Storage, group: str, change: Operation[None]) -> None:
    """Write `change` while none of the group's consumers reads.

    Raises:
        CommitFailedError: one of them reads now. LogUnavailable: the file can't be written now.
    """
    lock = GroupTurn(storage.path, group)
    if not lock.try_lock(fcntl.LOCK_SH):  # shared: several changes may wait to be written
        lock.close()
        raise CommitFailedError(f"group {group} has 1 members")
    written = storage.submit(change)
    # A queued change is written even if its caller is cancelled; until then nobody may read.
    written.add_done_callback(lambda _: lock.close())
    await asyncio.shield(written)


def _path(log: Path, group: str) -> Path:
    return log.with_name(f"{log.name}.groups") / quote(group, safe="")


def begin(transaction: Transaction, group: str, partitions: Sequence[int], *, at_end: bool) -> dict[int, int]:
    """Return the committed offset of each partition, where reading begins.

    A group without one begins at the partition's end, or else at its start. That is stored, because an offset that is
    missing would mean later that nothing was read.
    """
    transaction.connection.executemany(
        "INSERT OR IGNORE INTO committed(consumer_group, partition, offset, metadata) "
        "SELECT ?, id, iif(?, next, start), '' FROM partition WHERE id = ?",
        [(group, at_end, partition) for partition in partitions],
    )
    found = {partition: committed(transaction.connection, group, partition) for partition in partitions}
    return {partition: each[0] for partition, each in found.items() if each is not None}


def commit(transaction: Transaction, group: str, offsets: Mapping[int, tuple[int, str]]) -> None:
    """Store offset and metadata by partition, all or none."""
    transaction.connection.executemany(
        "INSERT INTO committed(consumer_group, partition, offset, metadata) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET offset = excluded.offset, metadata = excluded.metadata",
        [(group, partition, offset, metadata) for partition, (offset, metadata) in offsets.items()],
    )


def drop(transaction: Transaction, group: str) -> None:
    """Forget what the group has read."""
    transaction.connection.execute("DELETE FROM committed WHERE consumer_group = ?", (group,))


def committed(connection: sqlite3.Connection, group: str, partition: int) -> tuple[int, str] | None:
    """Return what the group has committed of the partition, offset and metadata; None if nothing."""
    found = "SELECT offset, metadata FROM committed WHERE consumer_group = ? AND partition = ?"
    row: tuple[int, str] | None = connection.execute(found, (group, partition)).fetchone()
    return row
