"""Which tests run where. This is the only place that decides.

There are three kinds of run: a developer's (`make test`), CI's (`CI=true make test`), and a long one
(SLUICE_TEST_COUNT, which `make chaos` sets), which runs all. A developer's leaves these out:

- the folders of `FOLDERS`, whose tests start processes and kill them,
- `server`, unless SLUICE_TEST_KAFKA, SLUICE_TEST_OLLAMA or SLUICE_TEST_QDRANT_URL names one,
- `CI_ONLY`: whatever else takes more than a second of CPU time with its processes, or shows nearly what a cheaper
  one shows,
- three quarters of the files of `QUARTERED`, folders whose tests open stores, logs, servers or an API: whole, they take
  half of the time. The next commit takes others. A file or folder that is named is run whole.

A `STORY` runs everywhere, though it is costly or in one of the folders: it is the one of its area.

CI runs all of that folder, what a developer's run does else, and a quarter of the rest, file by file, so that it ends
within its 20 minutes; but never what is `LONG_RUN_ONLY`. SLUICE_TEST_QUARTER names the quarter (0 to 3) or `all`. Else
it is the commit's, as random cases are: what passed at a commit passes there again, and the next commit tries others.
"""

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

IN_CI = bool(os.environ.get("CI"))
LONG = bool(os.environ.get("SLUICE_TEST_COUNT"))

SERVERS = ("SLUICE_TEST_KAFKA", "SLUICE_TEST_OLLAMA", "SLUICE_TEST_QDRANT_URL")
NAMED = any(map(os.environ.get, SERVERS))


def _number_of_commit() -> int:
    git = ["git", "rev-parse", "HEAD"]
    with suppress(OSError):  # no git here
        found = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return int(found.stdout or "0", 16)
    return 0


COMMIT = _number_of_commit()  # 0 outside a repository
QUARTERS = 4  # of three, a run took 19 min 28 s; all at once take 45 minutes on two cores
QUARTER = "SLUICE_TEST_QUARTER"
os.environ.setdefault(QUARTER, str(COMMIT % QUARTERS))
FOLDERS = ("tests/e2e/", "tests/faults/", "tests/golden/")
QUARTERED = (
    "tests/integration/",
    "tests/contract/",
    "tests/unit/shared/log/",
    "tests/unit/shared/runtime/",
    "tests/unit/shared/store/",
    "tests/unit/services/ingest_worker/fetch/",
    "tests/unit/services/operator_cli/",
)
STORY = pytest.mark.story
CI_ONLY = pytest.mark.ci_only
LONG_RUN_ONLY = pytest.mark.long_run_only  # takes ten minutes: not even CI runs it
COSTLY_S = 4.0  # CPU time; a developer's run names each test above that isn't a story: a mark was forgotten, or it grew


def sampled(cases: Iterable[Any], every: int = 4) -> list[Any]:
    """Return the cases of a parametrized test; a developer's run takes the first of `every` so many."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[CI_ONLY] if number % every else [])
        for number, case in enumerate(cases)
    ]


COLLECTED = pytest.StashKey[tuple[pytest.Item, ...]]()  # in the config: all tests, before any was left out


@dataclass(frozen=True)
class Run:
    """A run of the tests."""

    ci: bool
    long: bool = False
    servers: bool = False  # one is named
    quarter: int | None = None  # None: all

    def takes(self, file: str, marks: Iterable[pytest.Mark]) -> bool:
        """Return whether a test with these marks runs. `file` is its path from the repository's root."""
        names = {mark.name for mark in marks}
        if self.long or "long_run_only" in names:
            return self.long
        number = crc32(file.encode())
        left = "ci_only" in names or ("server" in names and not self.servers) or file.startswith(FOLDERS)
        theirs = self.quarter in (None, number % QUARTERS)
        if not self.ci and file.startswith(QUARTERED):
            left |= not theirs
        return not left or "story" in names or (self.ci and theirs)


def this_run(*, whole: bool) -> Run:
    """Return what the environment says of this run; `whole`: no file or folder is named."""
    quarter = os.environ[QUARTER]
    every = quarter == "all" or not (whole or IN_CI)
    return Run(IN_CI, LONG, NAMED, None if every else int(quarter))
