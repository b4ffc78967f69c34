"""Copies the log while it is used: one moment of it, in a file of its own. docs/adr/0012-backups-and-moves.md

The hold keeps what the copy may still need from being deleted. It is a lock on a file beside the log, so it binds every
process of the machine, and it ends with the process that took it, even if that is killed.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Final

from shared.errors import Unavailable
from shared.log import Commits
from shared.log.sqlite.file import Connect, FileLock, failures_named

HELD: Final = "held_for_copy"  # code of what is refused meanwhile
_POLL_S: Final = 0.1


def _hold(log: Path) -> FileLock:
    """Return the hold on a log. Deletions share it; a copy has it alone."""
    return FileLock(log.with_name(log.name + ".hold"))


@contextmanager
def deleting(log: Path) -> Iterator[None]:
    """Keep copies from starting while the block deletes.

    Raises:
        Unavailable: code HELD: the log is being copied.
    """
    with closing(_hold(log)) as lock:
        if not lock.try_lock(fcntl.LOCK_SH):
            raise Unavailable(f"a backup of {log.parent} is being made; try again when it is finished", HELD)
        yield


@asynccontextmanager
async def copying(log: Path, patience_s: float) -> AsyncIterator[None]:
    """Keep everybody from deleting while the block copies.

    Raises:
        Unavailable: code HELD: deletions, or another copy, weren't finished within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    with closing(_hold(log)) as lock:
        while not lock.try_lock():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"another backup, or the upkeep of {log.parent}, has been running for {patience_s:g} s", HELD
                )
            await asyncio.sleep(_POLL_S)
        yield


def copy(source: Path, connect: Connect, target: Path, commits: Commits) -> None:
    """Write the log as of one moment to `target`, which must not exist, with these committed offsets.

    Raises:
        LogUnavailable: the log can't be read, or the disk is full.
    """
    with failures_named(source):
        # Not `open_reader`: SQLite refuses this statement on a connection that may only read.
        with closing(connect(source)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("VACUUM INTO ?", (str(target),))
        target.chmod(0o600)
        with closing(connect(target)) as copied:
            copied.execute("BEGIN IMMEDIATE")
            copied.execute("DELETE FROM committed")
            copied.executemany("INSERT INTO committed VALUES (?, ?, ?, ?)", commits)
            copied.execute("COMMIT")
    with target.open("rb") as file:
        os.fsync(file.fileno())
