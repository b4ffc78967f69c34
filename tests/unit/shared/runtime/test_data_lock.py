import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.errors import Unavailable
from shared.runtime.data_lock import lock_data_folder, made_folder
from shared.settings import ConfigurationError


@pytest.mark.parametrize("error", [ConfigurationError("no"), Unavailable("away")])
def test_a_failed_start_leaves_no_folder_and_takes_none_that_was_there(tmp_path: Path, error: Exception) -> None:
    def failed(folder: Path, *, kept: bool, with_store: bool = True) -> bool:
        def start() -> None:
            with made_folder(folder, with_store=with_store) as keep:
                (folder / "log.sqlite").touch()
                if kept:
                    keep()
                raise error

        with pytest.raises(type(error)):
            start()
        return folder.exists()

    (tmp_path / "old").mkdir()

    assert not failed(tmp_path / "new", kept=False)
    assert failed(tmp_path / "served", kept=True)
    assert failed(tmp_path / "old", kept=False)
    assert failed(tmp_path / "log alone", kept=False, with_store=False), "a remote store may be paired with it"


def test_who_made_the_folder_and_is_refused_leaves_it_to_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    with ExitStack() as other:

        def start() -> None:
            with made_folder(folder, with_store=True):
                other.enter_context(lock_data_folder(folder))
                with lock_data_folder(folder):
                    pass

        with pytest.raises(ConfigurationError, match="in use by another Sluice"):
            start()
        assert folder.exists()


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with ExitStack() as first:
        first.enter_context(lock_data_folder(tmp_path))
        named = f"in use by another Sluice, process {os.getpid()}$"
        with pytest.raises(ConfigurationError, match=named), lock_data_folder(tmp_path):
            pass

    with lock_data_folder(tmp_path):
        pass
