"""A log's file is read without a change, also after a kill that left a write-ahead log."""

import os
import sqlite3
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from shared.log.sqlite.errors import LogUnavailable
from shared.log.sqlite.file import Presence, connect, open_writer, users
from shared.log.sqlite.inspection import LogFileState, inspect_file, migrate_file
from shared.log.sqlite.migrations import VERSION
from shared.settings import ConfigurationError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "log.sqlite"


def write_and_die(path: Path) -> None:
    """Write a log whose last transaction is in the write-ahead log alone, and end without closing it."""
    connection = open_writer(path, connect)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("INSERT INTO topic(name, partitions, cleanup, max_record_bytes) VALUES ('t', 1, 'compact', 9)")
    connection.execute("INSERT INTO partition(id, topic, number) VALUES (1, 1, 0)")
    connection.execute("INSERT INTO record VALUES (1, 0, 0, ?, x'', NULL), (1, 1, 0, NULL, x'', NULL)", (b"store",))
    os._exit(0)


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


def test_it_finds_what_a_killed_writer_left_and_changes_no_file(path: Path) -> None:
    child = get_context("spawn").Process(target=write_and_die, args=(path,))
    child.start()
    child.join()
    before = files(path)
    assert before["log.sqlite-wal"]

    assert inspect_file(path, "t") == LogFileState(VERSION, frozenset({b"store"}))

    assert inspect_file(path, "another").keys == frozenset()
    assert files(path) == before


def test_a_file_system_without_links_gets_a_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_writer(path, connect).close()

    def refused(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refused)

    assert inspect_file(path, "t").version == VERSION


def test_it_counts_the_processes_that_have_the_log_open(path: Path) -> None:
    open_writer(path, connect).close()
    presence = Presence(path)
    assert users(path) == 1
    presence.close()
    (path.parent / "log.sqlite.members" / "a killed process").touch()

    assert users(path) == 0


def test_what_can_t_be_read_is_said_and_nothing_is_left(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ConfigurationError, match="is no SQLite file"):
        inspect_file(path, "t")
    path.unlink()
    with closing(open_writer(path, connect)) as connection:
        connection.execute("DROP TABLE record")
    with pytest.raises(LogUnavailable, match="no such table: record"):
        inspect_file(path, "t")
    assert [each.name for each in path.parent.iterdir()] == ["log.sqlite"]


def test_a_file_is_migrate_file_step_by_step(path: Path) -> None:
    with closing(open_writer(path, connect)) as connection:
        connection.execute("PRAGMA user_version = 1")
    steps: list[int] = []

    migrate_file(path, lambda each: steps.append(each.number))

    assert steps == list(range(2, VERSION + 1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ConfigurationError, match="newer Sluice"):
        migrate_file(path, lambda _: None)
