"""Keeps what this process knows and writes from other users and processes of this machine."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

from shared import sandbox
from shared.settings import SECRETS, Settings

log = structlog.get_logger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MADE_BY_US = ("log.sqlite*", "store", "blobs", "serve.lock", "serve.json", "serve.sock", "samples.loaded")


def keep_private(settings: Settings) -> None:
    """Keep other users from reading our files, old and new, and this process's memory and secrets.

    Call it once, at the start: the secrets in the environment are overwritten. A blob folder outside SLUICE_DATA may
    be shared on purpose, so its mode is only logged.
    """
    os.umask(0o077)
    sandbox.conceal([f"SLUICE_{name.upper()}" for name in SECRETS])
    if not settings.keeps_data:
        return
    for path in _open_to_others(settings.data):
        _close(path)
    elsewhere = Path(settings.blobs.removeprefix("file:"))
    if settings.blobs.startswith("file:/") and elsewhere.is_dir() and elsewhere.stat().st_mode & _OTHERS:
        log.warning("blob_folder_open_to_others", folder=str(elsewhere), mode=_shown(elsewhere.stat()))


def _open_to_others(data: Path) -> Iterator[Path]:
    """Yield the paths made by Sluice that other users may read or enter; then the folder, if it has nothing else."""
    if not data.is_dir():
        return
    ours = {path for name in _MADE_BY_US for path in data.glob(name)}
    everything = [*sorted(ours), data] if ours and ours.issuperset(data.iterdir()) else sorted(ours)
    for path in everything:
        status = path.lstat()
        if not status.st_mode & _OTHERS or stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid == os.geteuid():
            yield path
        else:
            log.warning("data_open_to_others", path=str(path), owner=status.st_uid, mode=_shown(status))


def _shown(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"


def _close(path: Path) -> None:
    """Remove other users' permissions from the path and all beneath it.

    The path itself comes last: after a crash in between, the next start finds it still open and repeats the work.
    """
    if path.is_dir():
        for each in path.iterdir():
            if not each.is_symlink():
                _close(each)
    try:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    except OSError as error:  # another owner's, or gone
        log.warning("data_open_to_others", path=str(path), reason=error.strerror)
