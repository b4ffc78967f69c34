import re
import runpy
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from shared import version
from shared.version import commit, how_to_add
from tests.unit.deploy.files import ROOT


def test_the_commit_of_a_checkout_is_its_head_and_so_is_that_of_its_archive(tmp_path: Path) -> None:
    for name in (".gitattributes", "shared/version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "-m", "first"],
        ["archive", "--output", f"{tmp_path}/made.tar", "HEAD"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    with tarfile.open(tmp_path / "made.tar") as archived:
        archived.extractall(tmp_path / "made", filter="data")

    found = commit(tmp_path)

    assert re.fullmatch("[0-9a-f]{40}", found)
    made = runpy.run_path(str(tmp_path / "made" / "shared" / "version.py"))
    assert made["commit"]() == found


def test_where_nothing_says_so_the_commit_is_unknown(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert commit(tmp_path) == ""


def test_an_extra_is_added_as_it_can_be_where_sluice_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_to_add("ocr") == "make extras"
    monkeypatch.setattr(version, "CHECKOUT", False)
    assert how_to_add("ocr") == "EXTRAS=yes docker compose build"
    monkeypatch.setattr(version, "__name__", "sluice.shared.version")
    assert "WHEEL[ocr]" in how_to_add("ocr")
