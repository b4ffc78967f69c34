"""The mutants: that each still is one, always; that some of them are caught, in CI, other ones by each commit."""

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, Edit, Mutant
from tests.mutants.run import ROOT, catch, mutated, turn
from tests.selection import CI_ONLY

A_RUN = 2
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


def test_after_some_turns_every_mutant_has_been() -> None:
    numbers = range(-(-len(MUTANTS) // A_RUN))

    assert {mutant.name for number in numbers for mutant in turn(MUTANTS, A_RUN, number)} == {m.name for m in MUTANTS}


@pytest.mark.slow
@pytest.mark.timeout(900)
@CI_ONLY  # some a commit; for all of them: make mutants
@pytest.mark.parametrize("number", range(A_RUN))
def test_some_mutants_are_caught(number: int, tmp_path: Path) -> None:
    mutant = turn(MUTANTS, A_RUN)[number]

    assert catch(mutant, tmp_path, seeds=2000) is not None, f"nothing noticed: {mutant.name}"
