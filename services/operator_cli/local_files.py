"""Which files a path on the command line stands for, and what they are called."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

Stamp = tuple[int, int, int]


class FoundFile(msgspec.Struct, frozen=True, order=True):
    """A file to load. `name` is its path in the source: relative to the folder named, with `/`."""

    name: str
    file: Path

    def stamp(self) -> Stamp | None:
        """Return what tells this state of the file from another, None when it is gone."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def files_at(paths: Sequence[Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[FoundFile]:
    """Return the files in order of name: those named, and all in the folders named, hidden ones left out.

    A glob is matched against the name and against its last part; `*` crosses `/`. A file named outright is taken
    whatever its name. Links to folders are not followed, so that a loop of them ends.

    Raises:
        FileNotFoundError: a path doesn't exist.
        OSError: a folder can't be read: what is in it would look as if it were gone.
        ValueError: two files would get one name, and the second would replace the first.
    """
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        for each in _walk(path) if path.is_dir() else (path,):
            name = each.relative_to(path).as_posix() if path.is_dir() else each.name
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
    if not isinstance(error, FileNotFoundError):  # one that goes meanwhile is not there
        raise error


def wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Return whether the globs let a file in a folder through."""
    return (not include or _matches(name, include)) and not _matches(name, exclude)


def _matches(name: str, globs: Sequence[str]) -> bool:
    last = name.rsplit("/", 1)[-1]
    return any(fnmatchcase(name, glob) or fnmatchcase(last, glob) for glob in globs)
