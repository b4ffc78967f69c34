"""Keeps what this process knows and writes from other users and processes of this machine."""

import os
import stat
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
    _close(settings.data)
    elsewhere = Path(settings.blobs.removeprefix("file:"))
    if settings.blobs.startswith("file:/") and elsewhere.is_dir() and elsewhere.stat().st_mode & _OTHERS:
        log.warning("blob_folder_open_to_others", folder=str(elsewhere), mode=_shown(elsewhere.stat()))


def _close(data: Path) -> None:
    """Take other users' permissions from what Sluice made in the folder, then from the folder, if it has nothing else.

    What is within a closed folder needs nothing: nobody gets there.
    """
    if not data.is_dir():
        return
    ours = {path for name in _MADE_BY_US for path in data.glob(name)}
    everything = [*sorted(ours), data] if ours and ours.issuperset(data.iterdir()) else sorted(ours)
    for path in everything:
        status = path.lstat()
        if not status.st_mode & _OTHERS or stat.S_ISLNK(status.st_mode):
            continue
        reason: str | None = "another owner's"
        if status.st_uid == os.geteuid():
            try:
                path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
                continue
            except OSError as error:
                reason = error.strerror
        log.warning("data_open_to_others", path=str(path), owner=status.st_uid, mode=_shown(status), reason=reason)


def _shown(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"
