"""Has the payloads of hits read from the disk together, before the engine reads them one after the other.

The engine maps its files, and a payload that isn't in the page cache is a read that waits, so a hundred payloads are a
hundred waits. This module knows from the engine's own files where each payload is, and asks the system for all of them
at once. These are only requests to read ahead: if the engine changes its files' format, searches wait as before. See
docs/adr/0015-store-speed.md.
"""

import os
import resource
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.unsignedinteger[Any]]
_MAPPINGS = "id_tracker.mappings"  # in segments that take no new points
_ENTRY = np.dtype([("kind", "u1"), ("id", ">u8"), ("rest", ">u8"), ("slot", "<u4")])
_COUNT = 8  # bytes before the entries
_POINTER = np.dtype([("there", "<u4"), ("page", "<u4"), ("block", "<u4"), ("length", "<u4")])
_HEADER = 4  # bytes before the pointers
_UUID = 1
_RARELY = 32  # while payloads are requested, one read in so many isn't preceded by requests, and is watched
_FEW = 8  # if fewer than one in so many payloads waits for the disk, requests cost more than they save


class _Storage(msgspec.Struct):
    """What we read of the engine's description of a segment's payload storage."""

    mode: str
    block_size_bytes: int


class PayloadFiles:
    """The places of the payloads of one segment, 12 bytes of memory a point."""

    def __init__(self, segment: Path) -> None:
        """Read where the payloads are.

        Raises:
            OSError, ValueError, msgspec.DecodeError: the files are gone, or have another format.
        """
        self._pages: list[int] = []  # open files
        storage = segment / "payload_storage"
        described = msgspec.json.decode((storage / "config.json").read_bytes(), type=_Storage)
        if described.mode != "mutable":
            raise ValueError(f"{segment} has its payloads in an unknown format, {described.mode!r}")
        self._block = described.block_size_bytes
        entries = np.fromfile(segment / _MAPPINGS, dtype=_ENTRY, offset=_COUNT)
        if (entries["kind"] != _UUID).any():
            raise ValueError(f"{segment} has points whose ids are no UUIDs")
        # Half of an id is enough: where two ids share it, the wrong payload is read ahead, too.
        ids = entries["id"].astype(np.uint64)
        order = np.argsort(ids)
        self._ids: _Numbers = ids[order]
        self._slots: _Numbers = entries["slot"][order].astype(np.uint32)
        self._pointers = np.memmap(storage / "tracker.dat", dtype=np.uint8, mode="r")[_HEADER:]
        self._pointers = self._pointers[: len(self._pointers) // _POINTER.itemsize * _POINTER.itemsize].view(_POINTER)
        self._waits = True  # reads wait for the disk, so requests save time
        self._reads = 0
        with suppress(FileNotFoundError):
            while True:
                self._pages.append(os.open(storage / f"page_{len(self._pages)}.dat", os.O_RDONLY))

    def __del__(self) -> None:
        """Close the files: while they are open, deleted ones keep their space on the disk."""
        for page in self._pages:
            os.close(page)

    def places(self, ids: Iterable[UUID]) -> list[tuple[int, int, int]]:
        """Return the page, the offset in it and the length (bytes) of the payloads that are in this segment."""
        wanted = np.array([each.int >> 64 for each in ids], dtype=np.uint64)
        at = np.searchsorted(self._ids, wanted)
        at[at == len(self._ids)] = 0
        slots = self._slots[at[self._ids[at] == wanted]] if len(self._ids) else self._slots
        found = self._pointers[slots[slots < len(self._pointers)]]
        return [
            (page, block * self._block, length)
            for there, page, block, length in found.tolist()
            if there and page < len(self._pages)
        ]

    def request(self, ids: Iterable[UUID]) -> None:
        """Ask for the payloads of these points to be read into the page cache; return at once."""
        for page, offset, length in self.places(ids):
            os.posix_fadvise(self._pages[page], offset, length, os.POSIX_FADV_WILLNEED)

    def read(self, ids: Sequence[UUID], retrieve: Callable[[], list[Any]]) -> list[Any]:
        """Return what `retrieve` returns, which reads the payloads of these points.

        They are requested before, unless the latest reads that were watched hardly waited: in the page cache already,
        they would only cost the requests.
        """
        self._reads += 1
        if self._waits and self._reads % _RARELY:
            self.request(ids)
            return retrieve()
        records, self._waits = watched(len(ids), retrieve)
        return records


def payload_files(shard: Path) -> PayloadFiles | None:
    """Return the places of the payloads in the largest segment that takes no new points.

    None if there is none, if its files have an unknown format, or if the system takes no requests.
    """
    if not hasattr(os, "posix_fadvise") or not hasattr(resource, "RUSAGE_THREAD"):
        return None
    with suppress(OSError, ValueError, msgspec.DecodeError):
        largest = max(shard.glob(f"segments/*/{_MAPPINGS}"), key=lambda path: path.stat().st_size, default=None)
        return None if largest is None else PayloadFiles(largest.parent)
    return None


def watched(payloads: int, retrieve: Callable[[], list[Any]]) -> tuple[list[Any], bool]:
    """Return what `retrieve` returns, and whether it waited for the disk so often that reading ahead saves time."""
    before = _waited()
    records = retrieve()
    return records, (_waited() - before) * _FEW > payloads


def _waited() -> int:
    """Return how often this thread has waited for a page to be read from the disk; 0 where the system doesn't say."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt if hasattr(resource, "RUSAGE_THREAD") else 0
