"""Who has an embedded store's folder open."""

import fcntl
import os
from pathlib import Path

import pytest

from shared.store.edge_server import lock


@pytest.mark.parametrize("held", ["lock", "collections/generations/0/wal"])
def test_a_folder_is_locked_only_when_its_lock_and_all_logs_are_released(tmp_path: Path, held: str) -> None:
    for name in ("lock", "collections/generations/0/wal", "collections/documents/0/wal"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with (tmp_path / held).open("a") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)

        assert not lock(tmp_path, 0.05, os.getppid())


def test_the_lock_bears_its_owners_number_and_lasts(tmp_path: Path) -> None:
    assert lock(tmp_path, 0.0, os.getppid())

    assert (tmp_path / "lock").read_text() == str(os.getpid())
    assert not lock(tmp_path, 0.05, os.getppid())


def test_who_lost_the_parent_doesnt_wait_for_the_lock(tmp_path: Path) -> None:
    assert lock(tmp_path, 0.0, os.getppid())

    assert not lock(tmp_path, 3600, parent=-1)
