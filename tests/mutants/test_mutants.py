"""The mutants: that each still is one, always; that some of them are caught, in CI, other ones each day."""

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, Edit, Mutant
from tests.mutants.run import ROOT, catch, mutated, todays
from tests.selection import CI_ONLY

A_DAY = 2
named = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@named
def test_every_patch_fits_the_code(mutant: Mutant) -> None:
    for file, text in mutated(ROOT, mutant).items():
        assert text != (ROOT / file).read_text("utf-8")
        ast.parse(text)


@pytest.mark.parametrize(("old", "times"), [("a word that isn't there", 0), ("x", 2)])
def test_a_patch_that_fits_no_more_is_refused_by_name(tmp_path: Path, old: str, times: int) -> None:
    (tmp_path / "code.py").write_text("x = x", "utf-8")

    with pytest.raises(ValueError, match=f"the patch of code.py for 'm' fits {times} times, not once: \"?'?{old}"):
        mutated(tmp_path, Mutant("m", (Edit("code.py", old, "y"),)))


def test_after_some_days_every_mutant_has_been() -> None:
    days = range(-(-len(MUTANTS) // A_DAY))

    assert {mutant.name for day in days for mutant in todays(MUTANTS, A_DAY, day)} == {m.name for m in MUTANTS}


@pytest.mark.slow
@pytest.mark.timeout(900)
@CI_ONLY  # some a day; for all of them: make mutants
@pytest.mark.parametrize("number", range(A_DAY))
def test_todays_mutants_are_caught(number: int, tmp_path: Path) -> None:
    mutant = todays(MUTANTS, A_DAY)[number]

    assert catch(mutant, tmp_path, seeds=2000) is not None, f"nothing noticed: {mutant.name}"
