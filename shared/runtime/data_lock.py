"""The data folder: how it is made, its lock, by which one process owns it and its embedded store, and its socket."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shared.errors import Unavailable
from shared.settings import ConfigurationError

STATE_FILE: Final = "serve.json"  # {"pid", "url"} of the running server
_SOCKET: Final = "serve.sock"


@contextmanager
def made_folder(data: Path, *, with_store: bool) -> Iterator[Callable[[], None]]:
    """Make the folder and yield a function that keeps it.

    A folder that wasn't there goes again if the block fails before it is kept: a setting can't work, or a part is away.
    Without the store in it (`with_store`) it stays, because the store may be paired with its log already.
    """
    made: list[Path] = []
    try:
        data.mkdir(parents=True)
        if with_store:
            made.append(data)
    except FileExistsError:
        if not data.is_dir():
            raise
    try:
        yield made.clear
    except (ConfigurationError, Unavailable):
        for folder in made:
            # Another process may have been quicker to lock what this one made.
            with suppress(ConfigurationError), lock_data_folder(folder):
                shutil.rmtree(folder)
        raise


@contextmanager
def lock_data_folder(data: Path) -> Iterator[None]:
    """Lock the folder while the block runs; the lock ends with the process, also if that is killed.

    Raises:
        ConfigurationError: another process has locked it: a server, or a command such as a backup; the sentence has
            its number.
    """
    with (data / "serve.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = f", process {pid}" if (pid := lock.read()) else ""
            raise ConfigurationError(f"SLUICE_DATA={data} is in use by another Sluice{owner}") from None
        with suppress(OSError):  # a full disk
            os.ftruncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), str(os.getpid()).encode(), 0)
        yield


@contextmanager
def socket_in(data: Path) -> Iterator[list[socket.socket]]:
    """Yield the socket of the folder, which the caller has locked, for commands of who may read it; it is bound.

    Yield none where the folder can't have one: its name is too long for the system, or its file system has no sockets.
    """
    file = data.absolute() / _SOCKET
    with socket.socket(socket.AF_UNIX) as listener:
        own = list[socket.socket]()
        with suppress(OSError):
            file.unlink(missing_ok=True)  # left by a server that was killed
            listener.bind(str(file))
            file.chmod(0o600)  # before anybody can connect
            own.append(listener)
        yield own
        if own:
            file.unlink(missing_ok=True)


def owner_of(data: Path) -> tuple[str, str] | None:
    """Return socket and URL of the server that owns the folder, even of one that hangs; None if there is none."""
    file = data.absolute() / _SOCKET
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError, ValueError):
        probe.connect(str(file))
        return str(file), json.loads((data / STATE_FILE).read_text())["url"]
    return None
