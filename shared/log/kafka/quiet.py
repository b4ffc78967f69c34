"""Thins out aiokafka's log lines: it repeats hundreds of times that a broker is away."""

import logging
import time
from collections.abc import Callable
from functools import cache

_EVERY_S = 10.0


class RateFilter(logging.Filter):
    """Passes each kind of warning or error once in `every_s` seconds, with the number of those dropped since."""

    def __init__(self, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s = every_s
        self._clock = clock
        # By logger and message: when one was passed last, and how many were dropped since.
        self._last: dict[tuple[str, object], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if record.levelno < logging.WARNING:
            return True
        what = (record.name, record.msg)
        now = self._clock()
        when, held_back = self._last.get(what, (float("-inf"), 0))
        if now - when < self._every_s:
            self._last[what] = (when, held_back + 1)
            return False
        if held_back:
            record.msg = f"{record.getMessage()} (and {held_back} more like it)"
            record.args = None
        self._last[what] = (now, 0)
        return True


@cache
def quieten() -> None:
    """Add the filter to every logger of aiokafka: filters aren't inherited."""
    quiet = RateFilter()
    for name in [*logging.root.manager.loggerDict]:
        if name == "aiokafka" or name.startswith("aiokafka."):
            logging.getLogger(name).addFilter(quiet)
