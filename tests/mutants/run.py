"""Makes a mutant in a folder of its own, and asks the checks about it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.catalogue import Mutant
from tests.selection import COMMIT, QUARTER

ROOT = Path(__file__).resolve().parents[2]
_CODE = ("services", "shared", "tests", "pyproject.toml")
_GUARD_S = 900.0


def turn(mutants: Sequence[Mutant], count: int, number: int = COMMIT) -> list[Mutant]:
    """Return so many of the mutants, other ones by each number: after a while, all have been."""
    return [mutants[(number * count + at) % len(mutants)] for at in range(min(count, len(mutants)))]


def mutated(root: Path, mutant: Mutant) -> dict[str, str]:
    """Return the new text of each file that the mutant changes.

    Raises:
        ValueError: what is to be replaced isn't there, or more than once.
    """
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (root / edit.file).read_text("utf-8")
        if (count := text.count(edit.old)) != 1:
            raise ValueError(f"the patch of {edit.file} for {mutant.name!r} fits {count} times, not once: {edit.old!r}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def catch(mutant: Mutant, folder: Path, *, seeds: int) -> str | None:
    """Return which check noticed the mutant, None when none did. `folder` is empty, and filled with a copy.

    A check counts only if it is content with the code as it is.
    """
    for name in _CODE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for file, text in mutated(folder, mutant).items():
        (folder / file).write_text(text, "utf-8")
    return _by_tests(mutant, folder) if mutant.tests else _by_simulation(folder, seeds)


def _by_tests(mutant: Mutant, folder: Path) -> str | None:
    command = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests)
    there = _python(folder, *command)
    if there.returncode == 0:
        return None
    here = _python(ROOT, *command)
    if here.returncode != 0:
        raise AssertionError(f"{mutant.tests} fail without {mutant.name!r} too:\n{here.stdout}{here.stderr}")
    failed = [line.split()[1] for line in there.stdout.splitlines() if line.startswith("FAILED")]
    if not failed:  # it could not even be asked
        raise AssertionError(f"{mutant.tests} can't be run on {mutant.name!r}:\n{there.stdout}{there.stderr}")
    return failed[0]


def _by_simulation(folder: Path, seeds: int) -> str | None:
    there = _python(folder, "-m", "tests.simulation", "0", "--until", str(seeds), "--first")
    if there.returncode == 0:
        return None
    first = there.stdout.partition("\n")[0]
    if not first.startswith("seed "):
        raise AssertionError(f"the simulation can't be run:\n{there.stdout}{there.stderr}")
    seed = first.removeprefix("seed ").partition(":")[0]
    here = _python(ROOT, "-m", "tests.simulation", seed)
    if here.returncode != 0:
        raise AssertionError(f"the simulation fails without a patch too:\n{here.stdout}{here.stderr}")
    return f"simulation, {first[:150]}"


def _python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # The folder goes first, before the checkout that the environment knows. A check may be one of CI's.
    ours = {"CI": "true", QUARTER: "all", "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        check=False,
        timeout=_GUARD_S,
    )
