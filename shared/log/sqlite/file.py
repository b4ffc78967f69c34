"""The file on disk: its tables, how it is opened, and the locks that its processes share.

A process that has the log open must not open these files in any other way than through SQLite. Closing such a file
drops SQLite's POSIX locks on it, and the next process to open the log would delete the write-ahead log in use.
"""

import fcntl
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from shared.log import LogUnavailable
from shared.settings import ConfigurationError

Connect = Callable[[Path], sqlite3.Connection]

_APPLICATION_ID = 0x536C7563  # "Sluc": tells our file from any other SQLite database
# The file's `user_version`: raise it when this release can't use an older file as it is. Tables that aren't used any
# more may stay in one.
FORMAT = 1
_BUSY_S = 5.0  # how long a writer waits for another process before it raises Unavailable

# `partition.next` is the truth about offsets: rows are deleted (retention, compaction), but it never decreases.
# `partition.start` is the first readable offset; rows below it are waiting to be deleted.
#
# `clock` is the log's own clock, and `milestone` the ends of each partition at several ages of the log.
#
# The last five are the list from which compaction works. `listing.listed`: all records below this offset are listed.
# `listing.begun`: the log's age when the list was begun. `listing.replaced`: the highest value that `listed` has had.
# `newest`: the last listed record of each key. `dirty`: listed records to delete, at once (kind 0) or, for tombstones
# (kind 1), after a day.
_SCHEMA = """
CREATE TABLE topic(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partitions INTEGER NOT NULL, cleanup TEXT NOT NULL,
    retention_ms INTEGER, max_record_bytes INTEGER NOT NULL, compaction_lag_ms INTEGER NOT NULL DEFAULT 0);
CREATE TABLE partition(
    id INTEGER PRIMARY KEY, topic INTEGER NOT NULL REFERENCES topic(id), number INTEGER NOT NULL,
    start INTEGER NOT NULL DEFAULT 0, next INTEGER NOT NULL DEFAULT 0, time INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, number));
CREATE TABLE record(
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, time INTEGER NOT NULL,
    key BLOB, headers BLOB NOT NULL, value BLOB, PRIMARY KEY (partition, offset));
CREATE TABLE committed(
    consumer_group TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL, metadata TEXT NOT NULL,
    PRIMARY KEY (consumer_group, partition)) WITHOUT ROWID;
CREATE TABLE clock(id INTEGER PRIMARY KEY CHECK (id = 0), state BLOB NOT NULL);
CREATE TABLE milestone(
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, age INTEGER NOT NULL,
    PRIMARY KEY (partition, offset)) WITHOUT ROWID;
CREATE TABLE listing(
    partition INTEGER PRIMARY KEY, listed INTEGER NOT NULL, begun INTEGER NOT NULL,
    replaced INTEGER NOT NULL DEFAULT 0);
CREATE TABLE newest(
    partition INTEGER NOT NULL, key BLOB NOT NULL, offset INTEGER NOT NULL, PRIMARY KEY (partition, key)) WITHOUT ROWID;
CREATE TABLE dirty(
    partition INTEGER NOT NULL, kind INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (partition, kind, offset)) WITHOUT ROWID;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode that any thread may use, one at a time."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S, cached_statements=256)


def open_writer(path: Path, connect: Connect) -> sqlite3.Connection:
    """Return the connection that writes, with the tables in place.

    Raises:
        ConfigurationError: the file is no log of ours, or has another format.
        sqlite3.Error: it can't be opened now.
    """
    connection = connect(path)
    try:
        _check_ours(path, connection)
        # This must come before the first table; then the file can free space without a rewrite.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten with zeros, in free pages, too
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone stops at the drive's cache
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        if not _format_of(connection):
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, connect: Connect) -> sqlite3.Connection:
    """Return a connection that only reads."""
    connection = connect(path)
    # No checkpoint and no write ever comes from here: one connection of the process writes.
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def _format_of(connection: sqlite3.Connection) -> int:
    """Return the number of the file's format; 0: it has no tables yet."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def _check_ours(path: Path, connection: sqlite3.Connection) -> None:
    """Check that the file is new, or a log that this release can open.

    Raises:
        ConfigurationError: the file is no log of ours, or has another format.
        sqlite3.Error: it can't be read now.
    """
    try:
        number = _format_of(connection)
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise ConfigurationError(f"{path} is not a log of Sluice: it is no SQLite file") from None
        raise
    if (tables or number) and application != _APPLICATION_ID:
        raise ConfigurationError(f"{path} is not a log of Sluice: it is another program's SQLite file")
    if number not in (0, FORMAT):
        raise ConfigurationError(
            f"{path} has format {number}, and this release of Sluice reads format {FORMAT}: start the release that "
            "wrote it, or choose another SLUICE_LOG or SLUICE_DATA"
        )


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into LogUnavailable, which names the file and quotes SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        raise LogUnavailable(f"the log {path.name} can't be used now: {error}", "log_unavailable") from error


@contextmanager
def scanning(path: Path, connect: Connect) -> Iterator[sqlite3.Connection]:
    """Yield a connection for one long read, which would delay all others on a shared one. Raises LogUnavailable."""
    with failures_named(path), closing(open_reader(path, connect)) as connection:
        yield connection


def boot_clock() -> float:
    """Return seconds since boot, sleep included: the same for every process of the machine, and never adjusted."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class FileLock:
    """A lock on a file, which forked children close: a lock inherited by a parser would outlive its owner."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600)
        _descriptors.add(self)

    def close(self) -> None:
        number, self.number = self.number, -1
        _descriptors.discard(self)
        if number >= 0:
            os.close(number)

    def try_lock(self, kind: int = fcntl.LOCK_EX) -> bool:
        """Return whether nobody else holds a lock that excludes this `kind`."""
        try:
            fcntl.flock(self.number, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self.number, fcntl.LOCK_UN)

    def write(self, content: bytes) -> None:
        """Replace the file's content, for others to read."""
        os.ftruncate(self.number, 0)
        os.pwrite(self.number, content, 0)


_descriptors: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


def _close_in_child() -> None:
    for descriptor in list(_descriptors):
        # Close, never unlock: the child shares the lock with the parent, which still needs it.
        with suppress(OSError):
            descriptor.close()


os.register_at_fork(after_in_child=_close_in_child)


class WriteTurn(FileLock):
    """One writer at a time among all processes, checkpoints included.

    SQLite before 3.51.3 may damage a WAL file when two connections write and checkpoint at the same
    instant (the "WAL-reset bug"), and the version that comes with Python varies.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path.with_name(path.name + ".lock"))
        self._path = path

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the write lock while the block runs.

        Raises:
            LogUnavailable: another process has held it for 5 s.
        """
        deadline = time.monotonic() + _BUSY_S
        while not self.try_lock():
            if time.monotonic() > deadline:
                raise LogUnavailable(f"another process has been writing {self._path.name} for {_BUSY_S:g} s", "busy")
            time.sleep(0.0005)  # polled, because the kernel doesn't signal it; a turn takes less than a millisecond
        try:
            yield
        finally:
            self.unlock()
