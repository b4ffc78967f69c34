"""What processes hold over time, and whether it grows."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.e2e.cluster import Process

WARM = 4  # spans, until when what grows at first has grown
MOST_GROWTH = 10e6  # bytes
# Pools fill slowly: that for blobs has 16 threads once so many are put at a time. A leak at every fault is more.
MOST_MORE = {"handles": 2, "threads": 18, "children": 0}


class Sample(NamedTuple):
    """What a process and its children hold."""

    memory: int  # bytes, anonymous
    handles: int
    threads: int
    children: int


def anonymous_bytes(pid: int) -> int:
    """Return a process' memory that no file backs (Linux).

    Raises:
        OSError: it is gone.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines():
        if line.startswith("Anonymous:"):
            return 1024 * int(line.split()[1])
    raise ProcessLookupError(pid)


def sample(process: Process) -> Sample:
    """Return what it holds now; a child that ends meanwhile doesn't count."""
    found = []
    for each in process.family():
        try:
            found.append((anonymous_bytes(each.pid), each.num_fds(), each.num_threads()))
        except (psutil.NoSuchProcess, OSError):
            continue
    memory, handles, threads = (sum(column) for column in zip(*found, strict=True))
    return Sample(memory, handles, threads, len(found) - 1)


def grown(samples: Mapping[str, Sequence[Sequence[Sample]]]) -> list[str]:
    """Return what grew, as sentences; `samples` has those of each span of time, by process.

    The last third of the spans is held beside the first third after the warm-up. Memory: by the middle of a third's
    samples. Handles, threads, children: by the lowest of them, because what is busy has more.
    """
    wrong = []
    for process, spans in samples.items():
        warm = spans[WARM:]
        third = max(1, len(warm) // 3)
        early, late = warm[:third], warm[-third:]
        thirds = [[each for span in part for each in span] for part in (early, late)]
        memory = [statistics.median(each.memory for each in part) for part in thirds]
        print(f"{process}: {memory[0] / 1e6:.1f} MB, {(memory[1] - memory[0]) / 1e6:+.1f} MB")
        if memory[1] - memory[0] >= MOST_GROWTH:
            wrong.append(f"{process}: memory grew from {memory[0] / 1e6:.1f} to {memory[1] / 1e6:.1f} MB")
        for field, most in MOST_MORE.items():
            least = [min(getattr(each, field) for each in part) for part in thirds]
            print(f"  {field}: {least[0]}, {least[1] - least[0]:+d}")
            if least[1] - least[0] > most:
                wrong.append(f"{process}: {field} grew from {least[0]} to {least[1]}")
    return wrong
