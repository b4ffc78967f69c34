from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.runtime.data_lock import lock_data_folder
from shared.settings import ConfigurationError


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with ExitStack() as first:
        first.enter_context(lock_data_folder(tmp_path))
        with pytest.raises(ConfigurationError, match="in use by another Sluice"), lock_data_folder(tmp_path):
            pass

    with lock_data_folder(tmp_path):
        pass
