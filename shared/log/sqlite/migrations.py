"""The numbered migrations of the log's file, which bring its tables to this release's schema.

The file's `user_version` is the number of the last migration applied. Each migration is one transaction. It can be
repeated, because releases before number 4 applied some without raising the number. docs/adr/0003-sqlite-log.md

`shared/runtime/migrations.py` lists all migrations of an installation. A new one here gets the next number of that
list.
"""

import sqlite3
from collections.abc import Callable
from typing import Final, NamedTuple

from shared.log.sqlite import age

# The list from which compaction works. `listing.listed`: all records below this offset are listed. `listing.begun`: the
# log's age when the list was begun. `newest`: the last listed record of each key. `dirty`: listed records to delete, at
# once (kind 0) or, for tombstones (kind 1), after a day.
_LIST: Final = """
CREATE TABLE IF NOT EXISTS listing(partition INTEGER PRIMARY KEY, listed INTEGER NOT NULL, begun INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS newest(
    partition INTEGER NOT NULL, key BLOB NOT NULL, offset INTEGER NOT NULL, PRIMARY KEY (partition, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dirty(
    partition INTEGER NOT NULL, kind INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (partition, kind, offset)) WITHOUT ROWID
"""
_LONG_AGO: Final = -(10**15)  # below every age of a log, so the next compaction makes the list again


class LogMigration(NamedTuple):
    """A migration of the log's file."""

    number: int
    what: str  # shown to operators
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
VERSION: Final = MIGRATIONS[-1].number  # `user_version` of a file of this release


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration applied; 0: the file has no tables yet, 1: it was just created."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def due(version: int) -> tuple[LogMigration, ...]:
    """Return the migrations that a file of this version still needs."""
    return tuple(each for each in MIGRATIONS if each.number > version)


def migrate(
    connection: sqlite3.Connection, step: Callable[[LogMigration], None] = lambda _: None
) -> tuple[LogMigration, ...]:
    """Apply all migrations that are due, each in its own transaction; return them. `step` is called before each."""
    applied = due(version_of(connection))
    for each in applied:
        step(each)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) < each.number:  # else another process has applied it
                each.apply(connection)
                connection.execute(f"PRAGMA user_version = {each.number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return applied
