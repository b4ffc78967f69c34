"""What a reader may still use: it stops in time and gives what it has, instead of being killed with it.

The parser process says when a document begins, formats ask. Outside a parser process there is no limit.

Time is the CPU's, over all threads of the process: on a busy machine a file takes longer by the clock, and must end
as it does on an idle one. The clock only guards against a reader that waits for ever (docs/adr/0045-cpu-seconds.md).
"""

import math
import time
from collections.abc import Callable

MARGIN = 0.9  # of the time that the pool allows: the rest is for what comes after reading
PAGE_S = 0.1
SCAN_S = 20.0  # a page image on a slow machine
MAX_PAGES = 1000  # counted for time: a claim of a million pages must not buy a day
MAX_SCANS = 100
WALL_FACTOR = 20.0  # seconds by the clock for each second of the CPU's


def allowed(cpu_s: float, pages: int, scans: int) -> float:
    """Return the seconds that a document may take."""
    return cpu_s + PAGE_S * min(pages, MAX_PAGES) + SCAN_S * min(scans, MAX_SCANS)


class _Document:
    """The document at hand; a process reads one at a time."""

    began = 0.0  # by the clock
    began_cpu = 0.0
    cpu_s = math.inf
    pages = 0
    scans = 0
    announce: Callable[[int, int], None] | None = None


def begin(cpu_s: float, announce: Callable[[int, int], None]) -> None:
    """Start a document's time; `announce` is called with its pages and page images so far when there are more."""
    _Document.began, _Document.began_cpu = time.monotonic(), time.process_time()
    _Document.cpu_s, _Document.announce = cpu_s, announce
    _Document.pages = _Document.scans = 0


def earn(*, pages: int = 0, scans: int = 0) -> None:
    """Add the time that pages, and page images to be recognised, earn."""
    _Document.pages += pages
    _Document.scans += scans
    if _Document.announce is not None:
        _Document.announce(_Document.pages, _Document.scans)


def used(cpu_s: float, wall_s: float, wall_factor: float = WALL_FACTOR) -> float:
    """Return what counts against the allowed seconds, of those that the CPU worked and those that passed."""
    return max(cpu_s, wall_s / wall_factor)


def spent() -> bool:
    """Return whether it is time to stop."""
    so_far = used(time.process_time() - _Document.began_cpu, time.monotonic() - _Document.began)
    return so_far > MARGIN * allowed(_Document.cpu_s, _Document.pages, _Document.scans)


def seconds() -> str:
    """Return the allowed time, for people."""
    return f"{allowed(_Document.cpu_s, _Document.pages, _Document.scans):g} s of CPU time"
