"""Disks that take no more until a test makes room."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from tests.e2e.harness import Server

SIZE_MB = 320  # a new store keeps 225 of them for itself
_BLOCK = 4096


class Disk(Protocol):
    """Where a server's data is."""

    server: Server

    def fill(self, left: int) -> None:
        """Take the room, but for about so many bytes."""
        ...

    def free(self) -> None:
        """Give it back."""
        ...


class Ballast:
    """A file system of its own, with a large file beside the data."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._file = folder / "ballast"

    def fill(self, left: int) -> None:
        with self._file.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_BLOCK))
            except OSError:
                file.truncate(max(0, file.tell() - left))

    def free(self) -> None:
        self._file.unlink()


class FileSizes:
    """A limit for what the server's processes write, which needs no rights: the kernel refuses what lies behind it."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def fill(self, left: int) -> None:
        self._limit(left)

    def free(self) -> None:
        self._limit(psutil.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        limited: set[psutil.Process] = set()
        # Again, until nobody was born meanwhile: a child has its parent's limit.
        while found := set(self.server.family()) - limited:
            for process in found:
                try:
                    process.rlimit(psutil.RLIMIT_FSIZE, (size, psutil.RLIM_INFINITY))
                except psutil.NoSuchProcess:
                    continue
            limited |= found


@contextmanager
def ballast(folder: Path) -> Iterator[Disk]:
    """Give a server on a small file system of its own; only root may make one."""
    disk = folder / "disk"
    disk.mkdir()
    server = Server(disk / "data")
    server.log = folder / "server.log"  # what it says has room
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "none", str(disk)], check=True)
    try:
        with _running(server):
            yield Ballast(server, disk)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def file_sizes(folder: Path) -> Iterator[Disk]:
    """Give a server whose files may be kept from growing."""
    with _running(Server(folder / "data")) as server:
        yield FileSizes(server)


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    try:
        yield server.start()
    finally:
        server.stop()


def mounts(folder: Path) -> bool:
    """Return whether we may mount file systems here."""
    if os.geteuid():
        return False
    tried = subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], capture_output=True, check=False)
    if tried.returncode:
        return False
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    return True
