"""Numbered steps that bring a log of an earlier release to this release's tables.

The number is the file's `user_version`. Each step is one transaction and may be repeated, because releases before
step 4 took some of them without raising the number. docs/adr/0108-numbered-migrations.md

`shared/runtime/migrations.py` has the list of all steps of an installation. A new step here gets the next number of
that list.
"""

import sqlite3
from collections.abc import Callable
from typing import Final, NamedTuple

from shared.log.sqlite import age

# For the compaction. `listing.listed`: the records below this offset are in the list; `begun`: the log's age when the
# list was begun. `newest`: the last listed record of each key. `dirty`: listed records that go, at once (kind 0), or,
# tombstones (kind 1), after a day.
_LIST: Final = """
CREATE TABLE IF NOT EXISTS listing(partition INTEGER PRIMARY KEY, listed INTEGER NOT NULL, begun INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS newest(
    partition INTEGER NOT NULL, key BLOB NOT NULL, offset INTEGER NOT NULL, PRIMARY KEY (partition, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dirty(
    partition INTEGER NOT NULL, kind INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (partition, kind, offset)) WITHOUT ROWID
"""
_LONG_AGO: Final = -(10**15)  # before any age of a log: the next compaction makes the list again


class LogMigration(NamedTuple):
    """A step, and what it does to the file."""

    number: int
    what: str  # a phrase for people
    apply: Callable[[sqlite3.Connection], None]


def _script(statements: str) -> Callable[[sqlite3.Connection], None]:
    def run(connection: sqlite3.Connection) -> None:
        for statement in statements.split(";\n"):  # `executescript` would commit
            connection.execute(statement)

    return run


def _add_lag(connection: sqlite3.Connection) -> None:
    if not _has_column(connection, "topic", "compaction_lag_ms"):
        connection.execute("ALTER TABLE topic ADD COLUMN compaction_lag_ms INTEGER NOT NULL DEFAULT 0")
    if _has_column(connection, "listing", "replaced"):
        return
    # `replaced`: the highest value that `listed` has had. Earlier releases may have compacted up to the end.
    connection.execute("ALTER TABLE listing ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "INSERT OR IGNORE INTO listing(partition, listed, begun) "
        "SELECT partition.id, 0, ? FROM partition JOIN topic ON topic.id = topic "
        "WHERE cleanup = 'compact' AND next > 0",
        (_LONG_AGO,),
    )
    connection.execute("UPDATE listing SET replaced = (SELECT next FROM partition WHERE id = partition)")


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return any(row[1] == column for row in connection.execute(f"PRAGMA table_info({table})"))


MIGRATIONS: Final = (
    LogMigration(2, "tables for the log's own clock, by which retention counts", _script(age.SCHEMA)),
    LogMigration(3, "a list of replaced records, from which compaction works", _script(_LIST)),
    LogMigration(4, "a compaction lag for each topic, for which replaced versions stay", _add_lag),
)
VERSION: Final = MIGRATIONS[-1].number  # of a file that this release writes


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of the last step that the file has taken; 0: it has no tables yet, 1: it was just created."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def due(version: int) -> tuple[LogMigration, ...]:
    """Return the steps that a file of this version has yet to take."""
    return tuple(each for each in MIGRATIONS if each.number > version)


def migrate(
    connection: sqlite3.Connection, step: Callable[[LogMigration], None] = lambda _: None
) -> tuple[LogMigration, ...]:
    """Take all steps that are due, each in a transaction of its own; return them. `step` is called before each."""
    taken = due(version_of(connection))
    for each in taken:
        step(each)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) < each.number:  # else another process was first
                each.apply(connection)
                connection.execute(f"PRAGMA user_version = {each.number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return taken
