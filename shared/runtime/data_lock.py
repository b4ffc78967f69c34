"""The lock of the data folder: one process owns it and its embedded store."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.settings import ConfigurationError


@contextmanager
def lock_data_folder(data: Path) -> Iterator[None]:
    """Lock the folder while the block runs; the lock ends with the process, also if that is killed.

    Raises:
        ConfigurationError: another process has locked it.
    """
    with (data / "serve.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"SLUICE_DATA={data} is in use by another Sluice") from None
        yield
