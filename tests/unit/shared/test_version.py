import subprocess
from pathlib import Path

import pytest

from shared import version
from shared.version import commit, how_to_add


def test_the_commit_of_a_checkout_is_its_head(tmp_path: Path) -> None:
    for command in (
        ["init", "-q"],
        ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)

    found = commit(tmp_path)

    assert len(found) == 40
    assert set(found) <= set("0123456789abcdef")


def test_a_package_from_a_repository_knows_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Name: made\nVersion: 1\n")
    (made / "direct_url.json").write_text('{"url": "https://x.example", "vcs_info": {"commit_id": "abc"}}')
    monkeypatch.syspath_prepend(str(tmp_path))

    assert commit(tmp_path, "made") == "abc"


def test_where_nothing_says_so_the_commit_is_unknown(tmp_path: Path) -> None:
    assert commit(tmp_path, "no-such-package-at-all") == ""
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert commit(tmp_path) == ""


def test_an_extra_is_added_as_it_can_be_where_sluice_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_to_add("ocr") == "make extras"
    monkeypatch.setattr(version, "CHECKOUT", False)
    assert how_to_add("ocr") == "EXTRAS=yes docker compose build"
    monkeypatch.setattr(version, "__name__", "sluice.shared.version")
    assert "WHEEL[ocr]" in how_to_add("ocr")
