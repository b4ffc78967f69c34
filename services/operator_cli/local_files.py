"""Finds the files that paths on the command line stand for, and their names in the source.

What has changed since is found by polling, which works on every file system.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from shared.ids import composed

Stamp = tuple[int, int, int]
_BLANK = b" \t\r\n\f\xef\xbb\xbf"  # white space and the mark of UTF-8
_BLANK_BYTES = 1000  # a longer file isn't looked into


class FoundFile(msgspec.Struct, frozen=True, order=True):
    """A file to load. `name` is its path in the source: relative to the given folder, with `/`, in NFC."""

    name: str
    file: Path

    def stamp(self) -> Stamp | None:
        """Return a stamp that differs between states of the file; None if the file is gone."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def is_empty(self) -> bool:
        """Return whether the file has no text: nothing, or blank lines only."""
        try:
            return self.file.stat().st_size <= _BLANK_BYTES and not self.file.read_bytes().strip(_BLANK)
        except OSError:  # which sending it reports
            return False


def files_at(paths: Sequence[Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[FoundFile]:
    """Return the given files and all files in the given folders, sorted by name; hidden files are left out.

    A glob is matched against the name and against its last part; `*` also matches `/`. Files that are given themselves
    are always included. Links to folders are not followed, so that loops end.

    Raises:
        FileNotFoundError: a path doesn't exist.
        OSError: a folder can't be read; its files would seem to be deleted.
        ValueError: two files would get the same name, and the second would replace the first.
    """
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        for each in _walk(path) if path.is_dir() else (path,):
            name = composed(each.relative_to(path).as_posix() if path.is_dir() else each.name)
            if path.is_dir() and not wanted(name, include, exclude):
                continue
            other = files.setdefault(name, each)
            if not other.samefile(each):
                raise ValueError(f"{other} and {each} would both be called {name}; load them under two sources")
    return sorted(FoundFile(name, file) for name, file in files.items())


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, onerror=_complain):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(root, name)
            if not name.startswith(".") and file.is_file():
                yield file


def _complain(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a folder deleted meanwhile has no files
        raise error


def wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Return whether the globs include a file of a folder."""
    return (not include or _matches(name, include)) and not _matches(name, exclude)


def _matches(name: str, globs: Sequence[str]) -> bool:
    last = name.rsplit("/", 1)[-1]
    return any(fnmatchcase(name, glob) or fnmatchcase(last, glob) for glob in globs)


class Watched:
    """The states of files when they were loaded and at the last look, by name."""

    def __init__(self, loaded: Mapping[str, Stamp]) -> None:
        self._loaded = dict(loaded)
        self._seen = dict(loaded)

    def look(self, now: Mapping[str, Stamp]) -> tuple[list[str], list[str]]:
        """Return the sorted names of files to load, and of deleted files.

        A changed file is loaded once two looks in a row find the same state. Before, it may still be being written.
        """
        before, self._seen = self._seen, dict(now)
        changed = [name for name, stamp in now.items() if stamp != self._loaded.get(name) and stamp == before.get(name)]
        return sorted(changed), sorted(self._loaded.keys() - now.keys())

    def done(self, name: str) -> None:
        """Note that the file was loaded in the state last seen, or that its document was removed."""
        if name in self._seen:
            self._loaded[name] = self._seen[name]
        else:
            self._loaded.pop(name, None)


def stamps(files: Sequence[FoundFile]) -> dict[str, Stamp]:
    """Return a stamp of each file's state; files deleted meanwhile are left out."""
    seen = ((found.name, found.stamp()) for found in files)
    return {name: stamp for name, stamp in seen if stamp is not None}
