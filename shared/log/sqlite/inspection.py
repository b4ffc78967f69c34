"""Reads a log's file without changing it. Opening it as a log would apply the migrations that are due."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from shared.log.sqlite.errors import unavailable
from shared.log.sqlite.file import WriteTurn, check_ours, connect, open_writer
from shared.log.sqlite.migrations import LogMigration, version_of

_FOLDER: Final = ".inspecting"  # beside the file; deleted afterwards, or by the next inspection


class LogFileState(msgspec.Struct, frozen=True):
    """The state of a log's file on the disk."""

    version: int  # number of the last migration applied
    keys: frozenset[bytes]  # of the records of the requested topic


def inspect_file(path: Path, topic: str) -> LogFileState:
    """Return the state of the file, with the keys of one topic. No process may write to the file meanwhile.

    SQLite creates files beside a database even to read it. So it reads a hard link to the file in a separate folder,
    with a copy of the write-ahead log.

    Raises:
        ConfigurationError: the file is no log of ours, or a newer version's.
        LogUnavailable: it can't be read.
    """
    folder = path.with_name(_FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        linked = folder / path.name
        try:
            linked.hardlink_to(path)
        except OSError:  # the file system has no hard links
            shutil.copyfile(path, linked)
        with suppress(FileNotFoundError):  # it doesn't exist after a clean shutdown
            shutil.copyfile(f"{path}-wal", f"{linked}-wal")
        with closing(sqlite3.connect(f"file:{quote(str(linked))}?mode=ro", uri=True)) as connection:
            check_ours(path, connection)
            return LogFileState(version_of(connection), _keys(connection, topic))
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keys(connection: sqlite3.Connection, topic: str) -> frozenset[bytes]:
    found = connection.execute(
        "SELECT DISTINCT key FROM record WHERE key IS NOT NULL AND partition IN "
        "(SELECT partition.id FROM partition JOIN topic ON topic.id = topic WHERE name = ?)",
        (topic,),
    )
    return frozenset(bytes(row[0]) for row in found)


def migrate_file(path: Path, step: Callable[[LogMigration], None]) -> None:
    """Apply the migrations that are due to the file; `step` is called before each.

    Raises:
        ConfigurationError: the file is no log of ours, or a newer version's.
        LogUnavailable: it can't be opened now.
    """
    turn = WriteTurn(path)
    try:
        with turn.taken():
            open_writer(path, connect, step).close()
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    finally:
        turn.close()
