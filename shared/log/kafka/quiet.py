"""Thins out aiokafka's log lines: it repeats hundreds of times that a broker is away."""

import logging
import time
from collections.abc import Callable
from functools import cache

_EVERY_S = 10.0


class NowAndThen(logging.Filter):
    """Passes a warning or an error once in `every_s` seconds, whatever its values, with the number of dropped ones
    there were.
    """

    def __init__(self, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s = every_s
        self._clock = clock
        self._last: dict[
            tuple[str, object], tuple[float, int]
        ] = {}  # when it was passed last, and how many were dropped since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show it."""
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
    quiet = NowAndThen()
    for name in [*logging.root.manager.loggerDict]:
        if name == "aiokafka" or name.startswith("aiokafka."):
            logging.getLogger(name).addFilter(quiet)
