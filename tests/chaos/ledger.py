"""A file of what was tried and how it ended; its lines add up."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One slice."""

    at: str  # ISO 8601, UTC
    commit: str  # with a + where files differ from it
    fault: str
    count: int
    seed: int
    seconds: float
    passed: bool
    said: tuple[str, ...] = ()  # the figures that it printed


class Sum(NamedTuple):
    """What the slices of a fault come to."""

    slices: int
    times: int
    failed: int
    minutes: float


def append(path: Path, run: Run) -> None:
    """Write a slice down."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")


def read(path: Path) -> Iterator[Run]:
    """Yield every slice, the oldest first; none where there is no file."""
    if path.exists():
        yield from (msgspec.json.decode(line, type=Run) for line in path.read_bytes().splitlines())


def sums(runs: Iterable[Run]) -> dict[str, Sum]:
    """Return the sums by fault."""
    found: dict[str, Sum] = {}
    for run in runs:
        slices, times, failed, minutes = found.get(run.fault, Sum(0, 0, 0, 0.0))
        found[run.fault] = Sum(slices + 1, times + run.count, failed + (not run.passed), minutes + run.seconds / 60)
    return found
