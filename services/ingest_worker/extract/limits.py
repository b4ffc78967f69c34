"""What a reader may still use: it stops in time and gives what it has, instead of being killed with it.

The parser process says when a document begins, formats ask. Outside a parser process there is no limit.
"""

import math
import time
from collections.abc import Callable

MARGIN = 0.9  # of the time that the pool allows: the rest is for what comes after reading
PAGE_S = 0.1
SCAN_S = 20.0  # a page image on a slow machine
MAX_PAGES = 1000  # counted for time: a claim of a million pages must not buy a day
MAX_SCANS = 100


def allowed(wall_s: float, pages: int, scans: int) -> float:
    """Return the seconds that a document may take."""
    return wall_s + PAGE_S * min(pages, MAX_PAGES) + SCAN_S * min(scans, MAX_SCANS)


class _Document:
    """The document at hand; a process reads one at a time."""

    began = 0.0
    wall_s = math.inf
    pages = 0
    scans = 0
    announce: Callable[[int, int], None] | None = None


def begin(wall_s: float, announce: Callable[[int, int], None]) -> None:
    """Start a document's time; `announce` is called with its pages and page images so far when there are more."""
    _Document.began, _Document.wall_s, _Document.announce = time.monotonic(), wall_s, announce
    _Document.pages = _Document.scans = 0


def earn(*, pages: int = 0, scans: int = 0) -> None:
    """Add the time that pages, and page images to be recognised, earn."""
    _Document.pages += pages
    _Document.scans += scans
    if _Document.announce is not None:
        _Document.announce(_Document.pages, _Document.scans)


def spent() -> bool:
    """Return whether it is time to stop."""
    limit = MARGIN * allowed(_Document.wall_s, _Document.pages, _Document.scans)
    return time.monotonic() - _Document.began > limit


def seconds() -> str:
    """Return the allowed time, for people."""
    return f"{allowed(_Document.wall_s, _Document.pages, _Document.scans):g} s"
