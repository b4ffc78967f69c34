"""Retention by time that has passed: a clock a year off, for a moment or a day, moves nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition
from hypothesis import example, given
from hypothesis import strategies as st

from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.log.sqlite.clock import SETTLED_MS, Clock, Reading, advanced, begun
from shared.runtime.probes import Detail
from shared.runtime.resources import clock_details
from shared.topics import Topic

HOUR, DAY, YEAR = 3_600_000, 24 * 3_600_000, 365 * 24 * 3_600_000
EVENTS = TopicPartition("events", 0)
START = 1_700_000_000_000


class Machine:
    """A machine whose clocks are read."""

    def __init__(self) -> None:
        self.true = START
        self.boot_ms = 0
        self.boot_id = "first"
        self.wrong_by = 0

    def now(self) -> int:
        return self.true + self.wrong_by

    def boot(self) -> float:
        return self.boot_ms / 1000

    def reading(self) -> Reading:
        return Reading(self.boot_id, self.boot_ms, self.now())

    def runs(self, ms: int) -> None:
        self.true += ms
        self.boot_ms += ms

    def is_off(self, ms: int) -> None:
        self.true += ms
        self.boot_ms = 0
        self.boot_id += "'"


def watched(machine: Machine, clock: Clock, hours: int) -> Clock:
    """Return the clock after that many hourly readings."""
    for _ in range(hours):
        machine.runs(HOUR)
        clock = advanced(clock, machine.reading())
    return clock


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def log(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteLog]:
    monkeypatch.setattr("shared.log.sqlite.storage.boot_id", lambda: machine.boot_id)
    log = SqliteLog(tmp_path / "log.db", now=machine.now, boot=machine.boot)
    await log.start()
    await log.ensure_topics([Topic(name="events", partitions=1, retention_ms=7 * DAY)])
    yield log
    await log.stop()


async def write(log: SqliteLog) -> None:
    broker = log.broker("test")
    await broker.start()
    await publish(broker, "events", b"x", key=b"k")
    await broker.stop()


async def first(log: SqliteLog) -> int:
    return (await log.offsets_since("events", 0))[EVENTS]


@given(
    wrong_by=st.sampled_from([-YEAR, -HOUR, HOUR, YEAR]),
    begins=st.integers(0, 60),
    lasts=st.integers(1, 25),
    off_after=st.none() | st.integers(1, 60),
)
@example(wrong_by=YEAR, begins=41, lasts=20, off_after=40)
@example(wrong_by=-YEAR, begins=20, lasts=20, off_after=40)
def test_a_clock_that_is_wrong_for_a_day_adds_nothing_and_takes_nothing(
    wrong_by: int, begins: int, lasts: int, off_after: int | None
) -> None:
    machine = Machine()
    clock = begun(machine.reading())
    for hour in range(120):
        machine.wrong_by = wrong_by if begins <= hour < begins + lasts else 0
        if hour == off_after:
            machine.is_off(3 * DAY)
        before = clock.age
        clock = watched(machine, clock, 1)
        assert before <= clock.age <= machine.true - START

    assert clock.age >= machine.true - START - (0 if off_after is None else 3 * DAY + HOUR)


def test_the_time_for_which_the_machine_was_off_counts_once_it_is_certain(machine: Machine) -> None:
    clock = watched(machine, begun(machine.reading()), 30)
    machine.is_off(30 * DAY)

    clock = advanced(clock, machine.reading())
    assert clock.age == 30 * HOUR

    clock = watched(machine, clock, SETTLED_MS // HOUR)
    assert clock.age == machine.true - START


def test_processes_that_read_the_clocks_in_another_order_do_not_count_twice(machine: Machine) -> None:
    clock = begun(machine.reading())
    early = machine.reading()
    machine.runs(HOUR)
    clock = advanced(clock, machine.reading())

    assert advanced(clock, early) == clock
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(clock), type=Clock) == clock


@pytest.mark.parametrize("wrong_by", [YEAR, -YEAR])
@pytest.mark.parametrize("hours", [0, 24])
async def test_given_a_clock_a_year_off_when_it_is_right_again_then_records_go_after_their_retention(
    log: SqliteLog, machine: Machine, wrong_by: int, hours: int
) -> None:
    await write(log)
    await log.keep_up()
    machine.wrong_by = wrong_by
    await write(log)
    for _ in range(hours):
        await log.keep_up()
        machine.runs(HOUR)
    await log.keep_up()
    machine.wrong_by = 0
    await write(log)
    await log.keep_up()

    machine.runs(7 * DAY - hours * HOUR - 1)
    await log.keep_up()
    assert await first(log) == 0, "none is as old as its retention"

    machine.runs(24 * HOUR + 1)
    await log.keep_up()
    assert await first(log) == 3, "today such a moment keeps them for a year"


async def test_the_log_says_by_how_much_its_newest_record_is_ahead(log: SqliteLog, machine: Machine) -> None:
    machine.wrong_by = YEAR
    await write(log)
    assert await log.ahead_ms() == 0

    assert await clock_details(log) == {}

    machine.wrong_by = 0

    said = await clock_details(log)
    assert said == {"log_clock": "the newest record is 8760.0 h ahead of this clock: check the machine's clock"}
    assert isinstance(said["log_clock"], Detail), "nothing is broken: readiness stays green"
