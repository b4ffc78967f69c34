"""Each numbered migration, applied to a file of the release before it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shared.log.sqlite.file import connect, open_writer
from shared.log.sqlite.migrations import MIGRATIONS, VERSION, LogMigration, due, migrate, version_of
from shared.settings import ConfigurationError

# What each migration added, so that a test can remove it again.
UNDO = {
    2: "DROP TABLE clock; DROP TABLE milestone",
    3: "DROP TABLE listing; DROP TABLE newest; DROP TABLE dirty",
    4: "ALTER TABLE topic DROP COLUMN compaction_lag_ms; ALTER TABLE listing DROP COLUMN replaced",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    open_writer(tmp_path / "log.db", connect).close()
    return tmp_path / "log.db"


def before(path: Path, step: int) -> None:
    """Return the file to the state of the release before the migration."""
    with closing(sqlite3.connect(path)) as connection:
        for number in range(VERSION, step - 1, -1):
            connection.executescript(UNDO[number])
        connection.execute(f"PRAGMA user_version = {step - 1}")


def schema(path: Path) -> list[tuple[str, list[str]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
        ]
        return [(name, sorted(row[1] for row in connection.execute(f"PRAGMA table_info({name})"))) for name in tables]


def test_the_numbers_have_no_gap() -> None:
    assert [each.number for each in MIGRATIONS] == list(range(2, VERSION + 1))
    assert set(UNDO) == {each.number for each in MIGRATIONS}


@pytest.mark.parametrize("step", MIGRATIONS, ids=lambda step: str(step.number))
def test_each_step_makes_of_an_older_file_what_a_new_one_is(path: Path, step: LogMigration) -> None:
    number = step.number
    wanted = schema(path)
    before(path, number)
    assert schema(path) != wanted

    with closing(connect(path)) as connection:
        assert [each.number for each in due(version_of(connection))] == list(range(number, VERSION + 1))
        taken = migrate(connection)
        assert version_of(connection) == VERSION

    assert [each.number for each in taken] == list(range(number, VERSION + 1))
    assert schema(path) == wanted


def test_steps_that_an_earlier_release_took_without_counting_change_nothing(path: Path) -> None:
    wanted = schema(path)
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
        migrate(connection)

    assert schema(path) == wanted


def test_a_file_that_was_compacted_without_a_lag_says_that_any_record_may_have_replaced_others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(UNDO[4])
        connection.execute("PRAGMA user_version = 3")
        connection.execute("INSERT INTO topic VALUES (1, 'truth', 2, 'compact', NULL, 1000)")
        connection.execute("INSERT INTO partition(id, topic, number, next) VALUES (1, 1, 0, 7), (2, 1, 1, 9)")
        connection.execute("INSERT INTO listing VALUES (1, 5, 0)")
        connection.commit()

    open_writer(path, connect).close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT partition, replaced FROM listing ORDER BY 1").fetchall() == [(1, 7), (2, 9)]


def test_a_file_of_a_newer_release_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")

    with pytest.raises(ConfigurationError, match=f"newer Sluice .version {VERSION + 1} of the file"):
        open_writer(path, connect)
