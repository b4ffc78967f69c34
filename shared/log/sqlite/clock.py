"""The log's own clock: the time that has passed, independent of the machine's wall clock.

Retention and tombstones are timed by it. The times of records are of no use for that: one moment with a wrong clock
puts them a year ahead, and there they stay, because they never fall. docs/adr/0003-sqlite-log.md
"""

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

SETTLED_MS: Final = 26 * 3600 * 1000  # running time within which a wall clock was right at least once
_OVERTAKEN_MS: Final = 60_000  # a reading older than this was taken before the machine restarted
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Reading(msgspec.Struct, frozen=True):
    """A reading of the machine's clocks, in ms."""

    boot_id: str  # changes when the machine starts; empty if the system has none
    boot: int  # since the machine started, sleep included
    wall: int  # since 1970; may be wrong


class Clock(msgspec.Struct, frozen=True):
    """The log's age, with what is needed to continue it.

    While the machine runs, its boot clock counts, which nobody can set. The time for which it was off is the difference
    between the highest wall clock reading before and the lowest one after. It counts once both sides were watched for
    26 hours of running time, so a wall clock that is wrong for a day, ahead or behind, adds nothing.
    """

    last: Reading
    running: int = 0  # ms counted by boot clocks
    off: int = 0  # ms for which the machine was certainly off
    since: int = 0  # `running` at the start of the stretch that `low` and `high` describe
    low: int = 0  # least and largest difference of wall clock and `running` in the stretch
    high: int = 0
    before: int | None = None  # `high` of the previous stretch, until the time between them is counted

    @property
    def age(self) -> int:
        """Return how many ms have certainly passed since the first reading; it never decreases."""
        return self.running + self.off


def begun(reading: Reading) -> Clock:
    """Return the clock of a new log."""
    return Clock(last=reading, low=reading.wall, high=reading.wall)


def advanced(clock: Clock, reading: Reading) -> Clock:
    """Return the clock after one more reading."""
    passed = reading.boot - clock.last.boot
    restarted = reading.boot_id != clock.last.boot_id or (not reading.boot_id and passed < -_OVERTAKEN_MS)
    if not restarted and passed < 0:  # another process read the clocks later but wrote first
        return clock
    running = clock.running if restarted else clock.running + passed
    shift = reading.wall - running
    if restarted and running - clock.since >= SETTLED_MS:
        return msgspec.structs.replace(
            clock, last=reading, running=running, since=running, low=shift, high=shift, before=clock.high
        )
    low, high, off, before = min(clock.low, shift), max(clock.high, shift), clock.off, clock.before
    if before is not None and running - clock.since >= SETTLED_MS:
        off, before = off + max(0, low - before), None
    return msgspec.structs.replace(clock, last=reading, running=running, off=off, low=low, high=high, before=before)


def boot_id() -> str:
    """Return the id of the machine's current boot; empty if the system has none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def tick(connection: sqlite3.Connection, reading: Reading) -> int:
    """Return the log's age in ms, and record the partitions' current ends. Call it within a transaction."""
    row = connection.execute("SELECT state FROM clock").fetchone()
    clock = begun(reading) if row is None else advanced(msgspec.msgpack.decode(row[0], type=Clock), reading)
    connection.execute("INSERT OR REPLACE INTO clock(id, state) VALUES (0, ?)", (msgspec.msgpack.encode(clock),))
    # If a partition hasn't grown, its earlier milestone is stronger.
    connection.execute(
        "INSERT OR IGNORE INTO milestone(partition, offset, age) SELECT id, next, ? FROM partition", (clock.age,)
    )
    return clock.age


def end_at(connection: sqlite3.Connection, partition: int, age: int) -> int:
    """Return the partition's recorded end at that age (ms) of the log: all records below it are older."""
    found: int = connection.execute(
        "SELECT coalesce(max(offset), 0) FROM milestone WHERE partition = ? AND age <= ?", (partition, age)
    ).fetchone()[0]
    return found


def forget_milestones(connection: sqlite3.Connection, partition: int, age: int) -> None:
    """Delete the milestones that `end_at` won't need for `age` and later."""
    connection.execute(
        "DELETE FROM milestone WHERE partition = ? AND offset < ?", (partition, end_at(connection, partition, age))
    )
