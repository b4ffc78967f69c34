"""The lock of an embedded store's folder: one process has its collections open."""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

_POLL_S = 0.02  # polled: a blocking lock call would not notice that the parent has ended


def lock(folder: Path, wait_s: float, parent: int) -> bool:
    """Return whether this process could lock the folder within the time; the lock lasts until the process ends.

    Call it before a shard is opened: the engine refuses to open a shard twice, but the attempt breaks the first opener.
    """
    # The file is never closed. If this lock were released before the engine's own locks, the next owner would open a
    # shard that is still open here.
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    if not _within(wait_s, lambda: _locked(descriptor) and _all_closed(folder), lambda: os.getppid() == parent):
        return False
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return True


def owner(folder: Path) -> str:
    """Return the id of the process that locked the folder last."""
    return (folder / "lock").read_text()


def _within(wait_s: float, done: Callable[[], bool], worthwhile: Callable[[], bool] = lambda: True) -> bool:
    deadline = time.monotonic() + wait_s
    while not done():
        if time.monotonic() > deadline or not worthwhile():
            return False
        time.sleep(_POLL_S)
    return True


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _all_closed(folder: Path) -> bool:
    """Return whether no shard is open any more: the locks of an ending process aren't all released at one moment."""
    for log in folder.glob("collections/*/*/wal"):
        descriptor = os.open(log, os.O_RDONLY)
        try:
            if not _locked(descriptor):
                return False
        finally:
            os.close(descriptor)
    return True
