"""Compaction reads a list and what is new; a full pass a week mends the list."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition

from shared.log.publish import publish
from shared.log.sqlite import SqliteLog, compaction, file
from shared.log.sqlite.compaction import FULL_PASS_MS, TOMBSTONE_MS
from shared.topics import DAY, Topic

TRUTH = Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)
START_S = 1000.0


class Machine:
    """A log whose boot clock and connections are ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot_s = START_S
        self.steps = 0  # of SQLite's virtual machine, in tens, over all connections
        self.log = SqliteLog(path, connect=self._connect, boot=lambda: self.boot_s)
        self.broker = self.log.broker("test")

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = file.connect(path)
        connection.set_progress_handler(self._count, 10)
        return connection

    def _count(self) -> int:
        self.steps += 1
        return 0

    async def send(self, *records: tuple[str, str | None]) -> None:
        for key, value in records:
            await publish(self.broker, "truth", None if value is None else value.encode(), key=key.encode())

    def by_hand(self, *statements: str) -> None:
        """Change the file behind the log's back."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def found(self, query: str = "SELECT key, value FROM record ORDER BY offset") -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path / "log.db")
    await machine.log.start()
    await machine.log.ensure_topics([TRUTH])
    await machine.broker.start()
    yield machine
    await machine.broker.stop()
    await machine.log.stop()


async def test_given_ten_times_the_records_when_little_is_new_then_a_compaction_reads_no_more(machine: Machine) -> None:
    spent = []
    for numbers in (range(60), range(60, 660)):
        await machine.send(*((f"k{number}", "x") for number in numbers))
        await compaction.compact(machine.log._storage, "truth")
        await machine.send(("k1", "newer"))
        before = machine.steps

        assert await compaction.compact(machine.log._storage, "truth") == 1

        spent.append(machine.steps - before)
    print(f"tens of SQLite's steps: {spent}")
    assert spent[1] <= 1.5 * spent[0]


async def test_given_a_list_that_lost_a_record_when_a_week_has_passed_then_a_full_pass_finds_it(
    machine: Machine,
) -> None:
    await machine.send(("a", "1"), ("a", "2"), ("b", "1"))
    await machine.log.age_ms()
    assert await compaction.compact(machine.log._storage, "truth") == 1
    await machine.send(("b", "2"), ("c", "1"))
    machine.by_hand("UPDATE listing SET listed = 5", "UPDATE newest SET offset = 3 WHERE key = CAST('b' AS BLOB)")

    assert await compaction.compact(machine.log._storage, "truth") == 0

    machine.boot_s += FULL_PASS_MS / 1000
    assert await compaction.compact(machine.log._storage, "truth") == 1
    assert machine.found() == [(b"a", b"2"), (b"b", b"2"), (b"c", b"1")]


async def test_a_tombstone_that_is_written_again_is_timed_anew_and_leaves_nothing_on_the_list(machine: Machine) -> None:
    await machine.send(("a", "1"), ("a", None))
    assert await compaction.compact(machine.log._storage, "truth") == 1
    machine.boot_s += TOMBSTONE_MS / 2000
    await machine.send(("a", None), ("b", "1"))
    assert await compaction.compact(machine.log._storage, "truth") == 1, "the first tombstone has a later one"
    machine.boot_s += TOMBSTONE_MS / 2000
    assert await compaction.compact(machine.log._storage, "truth") == 0, "the second is half a day old"

    machine.boot_s += TOMBSTONE_MS / 2000

    assert await compaction.compact(machine.log._storage, "truth") == 1
    assert machine.found() == [(b"b", b"1")]
    assert machine.found("SELECT key FROM newest") == [(b"b",)]
    assert machine.found("SELECT * FROM dirty") == []


async def test_a_compacted_topic_with_a_retention_keeps_the_newest_of_a_key_until_it_is_that_old(
    machine: Machine,
) -> None:
    await machine.log.ensure_topics([msgspec.structs.replace(TRUTH, retention_ms=90 * DAY)])
    await machine.send(("a", "1"), ("a", "2"), ("b", "1"))
    await machine.log.keep_up()
    for _ in range(89):
        machine.boot_s += DAY / 1000
        await machine.log.keep_up()
    await machine.send(("c", "1"))
    kept = machine.found()
    machine.boot_s += DAY / 1000
    await machine.log.keep_up()

    assert kept == [(b"a", b"2"), (b"b", b"1"), (b"c", b"1")]
    assert machine.found() == [(b"c", b"1")]
    assert machine.found("SELECT key FROM newest") == [(b"c",)]


async def test_a_topic_that_is_dropped_leaves_no_list(machine: Machine) -> None:
    await machine.send(("a", "1"), ("a", None), ("b", "1"))
    await compaction.compact(machine.log._storage, "truth")

    await machine.log.drop_topic("truth")

    assert machine.found() == []
    for table in ("newest", "dirty", "listing"):
        assert machine.found(f"SELECT * FROM {table}") == []


LAG_MS = 7 * 24 * 3600 * 1000


async def _pass_days(machine: Machine, days: float) -> None:
    """Pass the time as a machine that runs does: with an upkeep each hour."""
    for _ in range(round(24 * days)):
        machine.boot_s += 3600
        await machine.log.age_ms()


async def test_given_a_compaction_lag_when_a_record_is_younger_then_it_replaces_nothing(machine: Machine) -> None:
    await machine.log.ensure_topics([msgspec.structs.replace(TRUTH, compaction_lag_ms=LAG_MS)])
    await machine.send(("a", "1"), ("b", "1"))
    await _pass_days(machine, 30)
    await machine.send(("a", "2"), ("b", None))
    await _pass_days(machine, 6.9)

    assert await compaction.compact(machine.log._storage, "truth") == 0
    assert await machine.log.replaced_below("truth") == {TopicPartition("truth", 0): 2}

    await _pass_days(machine, 0.2)
    assert await compaction.compact(machine.log._storage, "truth") == 2
    assert machine.found("SELECT key, value FROM record ORDER BY offset") == [(b"a", b"2"), (b"b", None)]
    assert await machine.log.replaced_below("truth") == {TopicPartition("truth", 0): 4}


async def test_given_a_full_pass_when_it_begins_anew_then_what_was_replaced_stays_known(machine: Machine) -> None:
    await machine.send(("a", "1"), ("a", "2"))
    await compaction.compact(machine.log._storage, "truth")
    machine.by_hand("UPDATE listing SET listed = 0")

    assert await machine.log.replaced_below("truth") == {TopicPartition("truth", 0): 2}
