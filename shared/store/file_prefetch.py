"""Has the operating system read a store's files in sequence, before the engine reads them page by page.

The engine maps its files for random access, so each page that isn't cached is a read of 4 kB that waits for the disk.
See docs/adr/0015-store-speed.md.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_SLICE = 8 * 2**20  # bytes of one request, so that the kernel never has to queue more
_FOR_SEARCHES = ("payload_storage", "vector_storage")  # beginnings of the folders that searches read from


def opening_files(shard: Path) -> Iterator[Path]:
    """Yield the files that the engine reads completely when it opens the shard."""
    return (path for path in _files(shard) if not _is_for_searches(path, shard))


def searched_files(shard: Path) -> Iterator[Path]:
    """Yield the files from which searches read some pages each."""
    return (path for path in _files(shard) if _is_for_searches(path, shard))


def read_ahead(files: Iterable[Path], most: int) -> int:
    """Ask for the files to be read into the page cache, at most `most` bytes; return how many were asked for.

    Where the system has no such request, nothing happens. A file that is gone is left out.
    """
    asked = 0
    if not hasattr(os, "posix_fadvise"):
        return asked
    for path in files:
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                size = min(os.fstat(descriptor).st_size, most - asked)
                for at in range(0, size, _SLICE):
                    os.posix_fadvise(descriptor, at, min(_SLICE, size - at), os.POSIX_FADV_WILLNEED)
                asked += max(size, 0)
            finally:
                os.close(descriptor)
        if asked >= most:
            break
    return asked


def available_memory() -> int:
    """Return how many bytes of memory are free or hold only files' pages; 0 where the system doesn't say."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return 0


def _files(shard: Path) -> Iterator[Path]:
    return (path for path in sorted((shard / "segments").glob("*/**/*")) if path.is_file())


def _is_for_searches(path: Path, shard: Path) -> bool:
    return path.relative_to(shard / "segments").parts[1].startswith(_FOR_SEARCHES)
