"""`manifest.json` of a backup: every file with its size and hash, and which installation it is of."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Final

import msgspec

from services.operator_cli.errors import CommandError
from shared.contracts import Message
from shared.ids import file_hash
from shared.settings import ConfigurationError

FORMAT: Final = 1
NAME: Final = "manifest.json"
LOG: Final = "log.sqlite"
STORE: Final = "store"  # folder with a file for each collection
BLOBS: Final = "blobs"  # folder of tenant/document/sha256
KEYS: Final = "keys.json"


class BackedUpFile(Message, frozen=True):
    """A file of the backup."""

    path: str  # relative, with slashes
    size: int  # bytes
    xxh3: str  # 32 hex digits, xxh3_128


class Manifest(Message, frozen=True, kw_only=True):
    """The description of a backup."""

    format: int  # without a default, so that it is always written
    sluice: str  # version that made it
    created: str  # ISO 8601
    log_id: str
    store_id: str
    checkpoint: int  # of the log's copy of the pairing, or a later one
    # Of documents.extracted by partition; the copied log reaches at least so far.
    ends: dict[str, int] = msgspec.field(default_factory=dict)
    documents: int
    points: int
    blobs: int
    settings: dict[str, str]  # that were given, without secrets; shown by a restore
    files: tuple[BackedUpFile, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)


def check_room(folder: Path, needed: float) -> None:
    """Raise CommandError unless the disk of the folder, or of where it will be, has this many bytes free."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise CommandError(f"{there} has {free / 1e6:.0f} MB free, and needs about {needed / 1e6:.0f} MB")


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into the folder and sync it."""
    with (folder / NAME).open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """Return the manifest of the backup in the folder.

    Raises:
        ConfigurationError: the backup isn't complete, or has another format.
    """
    try:
        # Whoever opened a pipe in the usual way would wait for ever.
        with open(folder / NAME, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            raw = file.read() if S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        if not raw:
            raise ConfigurationError(f"{folder} is not a complete backup: it has no {NAME}")
        known = msgspec.json.decode(raw, type=_Format).format
        if known != FORMAT:
            raise ConfigurationError(
                f"the backup {folder} has format {known}, and this release of Sluice reads format {FORMAT}: restore it "
                "with the release that made it"
            )
        return msgspec.json.decode(raw, type=Manifest)
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigurationError(f"{folder} is not a complete backup: it has no {NAME}") from None
    except OSError as error:
        raise ConfigurationError(f"the backup {folder} can't be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{folder / NAME} is damaged: {error}") from None


def check(folder: Path, manifest: Manifest, checked: Callable[[int], object]) -> None:
    """Call `checked` with the size of each file whose content is what was backed up.

    Raises:
        ConfigurationError: one is missing, damaged, or has a name that leads out of the folder.
    """
    for each in manifest.files:
        path = place(folder, each.path)
        try:
            if not S_ISREG(path.stat().st_mode) or file_hash(path) != each.xxh3:
                raise ConfigurationError(f"{path} is damaged: its content isn't what was backed up")
        except OSError as error:
            raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
        checked(each.size)


def place(folder: Path, path: str) -> Path:
    """Return the path of a file of the backup.

    Raises:
        ConfigurationError: it leads out of the folder.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or "\0" in path or PurePosixPath(path).is_absolute():
        raise ConfigurationError(f"{folder / NAME} names the file {path!r}, which isn't in the backup")
    return folder.joinpath(*parts)


class _Format(msgspec.Struct, frozen=True):
    format: int
