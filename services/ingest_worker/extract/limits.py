"""The most time, pages, links and characters that a document may have, so that its reader stops in time.

The parser process calls `begin` for each document, and formats call `spent`. Elsewhere there is no limit.

Time is CPU time over all threads of the process, because a file must get the same result on a busy machine as on an
idle one. The wall clock only stops a reader that waits for ever (docs/adr/0005-retries-dead-letters-replay.md).
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shared.errors import Rejected

MARGIN = 0.9  # share of the pool's limit for reading; the rest is for the work after it
PAGE_S = 0.1
SCAN_S = 20.0  # OCR of a page image on a slow machine
MAX_PAGES = 1000  # that add time: a file that claims a million pages must not get a day
MAX_SCANS = 100
MOST_PAGES = 20_000  # their offsets travel in one record of the log
MOST_LINKS = 10_000
MOST_TEXT = 25 * 1024 * 1024  # characters; as long as the largest file of plain text that is accepted
WALL_FACTOR = 20.0  # wall-clock seconds allowed per CPU second
_light: ContextVar[bool] = ContextVar("light", default=False)


class Heavy(BaseException):
    """The file is not as light as it looked: only a parser process may read it. No reader catches that."""


@contextmanager
def lightly() -> Iterator[None]:
    """Read a file in the calling process, which is not confined: `check_light` raises Heavy."""
    token = _light.set(True)
    try:
        yield
    finally:
        _light.reset(token)


def check_light() -> None:
    """Raise Heavy within `lightly`. To be called before native code parses markup, whatever led to it."""
    if _light.get():
        raise Heavy


def allowed(cpu_s: float, pages: int, scans: int) -> float:
    """Return the seconds that a document may take."""
    return cpu_s + PAGE_S * min(pages, MAX_PAGES) + SCAN_S * min(scans, MAX_SCANS)


def check_pages(name: str, pages: int) -> None:
    """Raise Rejected if the document has more than `MOST_PAGES`."""
    if pages > MOST_PAGES:
        most = f"more than the {MOST_PAGES:,} that a document may have"
        raise Rejected(f"{name} has {pages:,} pages, {most}", "too_large")


class _Document:
    """The current document; a process reads one at a time."""

    began = 0.0  # monotonic
    began_cpu = 0.0
    cpu_s = math.inf
    pages = 0
    scans = 0
    announce: Callable[[int, int], None] | None = None


def begin(cpu_s: float, announce: Callable[[int, int], None]) -> None:
    """Start the clock for a document; `announce` is called with its page and page image counts when they grow."""
    _Document.began, _Document.began_cpu = time.monotonic(), time.process_time()
    _Document.cpu_s, _Document.announce = cpu_s, announce
    _Document.pages = _Document.scans = 0


def earn(*, pages: int = 0, scans: int = 0) -> None:
    """Add the time for pages, and for page images that need OCR."""
    _Document.pages += pages
    _Document.scans += scans
    if _Document.announce is not None:
        _Document.announce(_Document.pages, _Document.scans)


def used(cpu_s: float, wall_s: float, wall_factor: float = WALL_FACTOR) -> float:
    """Return the seconds that count against the limit: the CPU time, or the scaled wall time if that is larger."""
    return max(cpu_s, wall_s / wall_factor)


def spent() -> bool:
    """Return whether the reader must stop."""
    so_far = used(time.process_time() - _Document.began_cpu, time.monotonic() - _Document.began)
    return so_far > MARGIN * allowed(_Document.cpu_s, _Document.pages, _Document.scans)


def seconds() -> str:
    """Return the time limit as text for an error message."""
    return f"{allowed(_Document.cpu_s, _Document.pages, _Document.scans):g} s of CPU time"
