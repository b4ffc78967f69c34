"""Which tests run where. This is the only place that decides.

There are three kinds of run: a developer's (`make test`), CI's (`CI=true make test`), and a long one
(SLUICE_TEST_COUNT, which `make chaos` sets). CI's runs every test within two days, but for `LONG_RUN_ONLY`. A
developer's leaves these to CI:

- the folders of `FOLDERS`, whose tests start processes and kill them,
- `server`, unless SLUICE_TEST_KAFKA, SLUICE_TEST_OLLAMA or SLUICE_TEST_QDRANT_URL names one,
- `CI_ONLY`: whatever else takes more than a second of CPU time with its processes, or shows nearly what a cheaper
  one shows.

A `STORY` runs everywhere, though it is costly or in one of the folders: it is the one of its area.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

IN_CI = bool(os.environ.get("CI"))
LONG = bool(os.environ.get("SLUICE_TEST_COUNT"))

SERVERS = ("SLUICE_TEST_KAFKA", "SLUICE_TEST_OLLAMA", "SLUICE_TEST_QDRANT_URL")
NAMED = any(map(os.environ.get, SERVERS))

FOLDERS = ("tests/e2e/", "tests/faults/", "tests/golden/")
STORY = pytest.mark.story
CI_ONLY = pytest.mark.ci_only
LONG_RUN_ONLY = pytest.mark.long_run_only  # takes ten minutes: not even CI runs it
COSTLY_S = 4.0  # CPU time; a developer's run names each test above that isn't a story: a mark was forgotten, or it grew

COLLECTED = pytest.StashKey[tuple[pytest.Item, ...]]()  # in the config: all tests, before any was left out


def every_other_day(day: int) -> pytest.MarkDecorator:
    """Return a mark for one of two costly stories, 0 or 1: CI tells them on alternate days, a long run tells both."""
    return pytest.mark.every_other_day(day)


@dataclass(frozen=True)
class Run:
    """A run of the tests."""

    ci: bool
    long: bool = False
    servers: bool = False  # one is named
    day: int = 0  # the proleptic ordinal

    def takes(self, file: str, marks: Iterable[pytest.Mark]) -> bool:
        """Return whether a test with these marks runs. `file` is its path from the repository's root."""
        marks = tuple(marks)
        names = {mark.name for mark in marks}
        if "long_run_only" in names and not self.long:
            return False
        if not self.ci:
            costly = "ci_only" in names or ("server" in names and not self.servers)
            return not costly and ("story" in names or not file.startswith(FOLDERS))
        return self.long or all(mark.args == (self.day % 2,) for mark in marks if mark.name == "every_other_day")


def this_run() -> Run:
    """Return what the environment says of this run."""
    return Run(IN_CI, LONG, NAMED, datetime.now(UTC).toordinal())
