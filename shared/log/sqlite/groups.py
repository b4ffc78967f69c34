"""Consumer groups: one consumer of a group reads at a time, and the others wait for their turn.

Whoever reads holds a lock on a file beside the log. The lock ends with its process, however that ends, so nobody has to
be taken for dead. Who wants several workers for one stage needs Kafka.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec
from aiokafka.errors import CommitFailedError

from shared.log.sqlite.file import FileLock
from shared.log.sqlite.storage import Transaction


class Member(msgspec.Struct, frozen=True):
    """A consumer that reads for its group."""

    id: str
    topics: tuple[str, ...]  # of which it reads all partitions


class GroupTurn:
    """A consumer's place in its group."""

    def __init__(self, log: Path, group: str) -> None:
        """Take the path of the log's file."""
        self._lock = FileLock(_file(log, group))

    def take(self, member: Member) -> bool:
        """Return whether the member reads from now on; False: another one does."""
        taken = self._lock.try_lock()
        if taken:
            self._lock.write(msgspec.json.encode(member))
        return taken

    def close(self) -> None:
        """Let another one read."""
        self._lock.close()


def reader(log: Path, group: str) -> Member | None:
    """Return who reads for the group now; None: nobody."""
    try:
        with at_rest(log, group):
            return None
    except CommitFailedError:
        with suppress(msgspec.DecodeError):  # it has only just begun
            return msgspec.json.decode(_file(log, group).read_bytes(), type=Member)
    return None


@contextmanager
def at_rest(log: Path, group: str) -> Iterator[None]:
    """Keep the group's consumers from reading while the block runs.

    Raises:
        CommitFailedError: one of them reads now.
    """
    lock = FileLock(_file(log, group))
    try:
        if not lock.try_lock():
            raise CommitFailedError(f"group {group} has 1 members")
        yield
    finally:
        lock.close()


def _file(log: Path, group: str) -> Path:
    folder = log.with_name(f"{log.name}.groups")
    folder.mkdir(exist_ok=True)
    return folder / quote(group, safe="")


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
    return {partition: _offset(transaction.connection, group, partition) for partition in partitions}


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


def _offset(connection: sqlite3.Connection, group: str, partition: int) -> int:
    found = "SELECT offset FROM committed WHERE consumer_group = ? AND partition = ?"
    offset: int = connection.execute(found, (group, partition)).fetchone()[0]
    return offset
