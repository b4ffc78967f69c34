"""Many histories in one thread; see `tests.simulation.history` for what must hold in each.

A seed that fails is printed small, with the command that plays it again. `python -m tests.simulation 0 --until 20000`
is the long run.
"""

import os
import subprocess
import sys

import pytest

from tests.selection import CI_ONLY, IN_CI
from tests.simulation.history import play, verdict
from tests.simulation.plan import plan_of

SEEDS = 600 if IN_CI else 40
CHUNK = SEEDS // 10  # two pytest workers share them
FIRST = SEEDS * int(os.environ.get("SLUICE_TEST_SEED", "0"))  # each slice of a long run has seeds of its own


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("start", range(FIRST, FIRST + SEEDS, CHUNK))
def test_whatever_dies_when_the_index_equals_the_log(start: int) -> None:
    failures = [found for seed in range(start, start + CHUNK) if (found := verdict(seed)) is not None]

    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(3346, id="redriven in another order than they came"),
        pytest.param(4431, id="a worker that lost its partition said 'accepted' of what had ended well"),
        pytest.param(6223, id="and of what had failed"),
        pytest.param(2127, id="the points of a failed version came back with a loss of power"),
        pytest.param(4857, id="a ledger entry lost with the power left a version in the truth"),
        pytest.param(5373, id="and so did one whose head had been written meanwhile"),
        pytest.param(5583, id="an erasure that a failed submission followed was called superseded"),
        pytest.param(922, id="a mark after a commit whose reply got lost set the offset back"),
        pytest.param(15624, id="a write that its condition refused was counted as an effect"),
    ],
)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert verdict(seed) is None


@CI_ONLY
@pytest.mark.slow
def test_a_seed_takes_the_same_steps_in_every_process() -> None:
    first, last = 1, 8
    here: list[str] = []
    for seed in range(first, last):
        assert play(plan_of(seed), here.append) is None
    command = (sys.executable, "-m", "tests.simulation", str(first), "--until", str(last), "--trace")
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # another order of every set

    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    assert len(here) > 1000
    assert there[:-1] == here  # the last line counts the seeds
