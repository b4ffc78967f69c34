from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.ledger import Run, Sum, append, read, sums

ROOT = Path(__file__).resolve().parents[3]


def a_run(fault: str, count: int, *, passed: bool = True) -> Run:
    return Run(at="2026-01-01", commit="abc", fault=fault, count=count, seed=1, seconds=30, passed=passed)


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for run in (a_run("kill", 5), a_run("kill", 7, passed=False), a_run("poison", 1)):
        append(path, run)

    assert sums(read(path)) == {"kill": Sum(2, 12, 1, 1.0), "poison": Sum(1, 1, 0, 0.5)}
    assert list(read(tmp_path / "none")) == []


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_a_test_that_takes_its_count_and_seed_from_outside(name: str) -> None:
    source = (ROOT / FAULTS[name].tests).read_text(encoding="utf-8")

    assert "def test_" in source
    outside = ("new_seed()", "rounds(", "CASES", "SLUICE_TEST_SEED", "CHOSEN")
    assert [word for word in outside if word in source]
