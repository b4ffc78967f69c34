"""Copies the log while it is used: one moment of it, in a file of its own."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from shared.log import Commits
from shared.log.sqlite.file import Connect, failures_named


def read_commits(connection: sqlite3.Connection) -> Commits:
    """Return the committed offsets of all groups."""
    return connection.execute("SELECT consumer_group, partition, offset, metadata FROM committed").fetchall()


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
