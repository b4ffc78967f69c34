"""Stops calling a service that keeps failing, so that callers get their 503 at once instead of after a timeout."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from shared.errors import Unavailable
from shared.runtime.probes import RETRY_AFTER_S
from shared.state.rebuild_gate import CODE as REBUILDING

log = structlog.get_logger(__name__)

MOST_FAILURES: Final = 5  # failures in a row until the breaker opens


class CircuitBreaker:
    """Counts a service's failures in a row. While the breaker is open, one call every few seconds is let through.

    An index that is being rebuilt isn't a failure, because the store answered.
    """

    def __init__(self, what: str, *, pause_s: float = RETRY_AFTER_S, now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._pause_s = pause_s
        self._now = now
        self._failures = 0
        self._again_at = 0.0
        self._reason = ""

    @property
    def is_open(self) -> bool:
        """Return whether calls are refused."""
        return self._failures >= MOST_FAILURES

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Count the outcome of the call in the block; after `MOST_FAILURES` in a row, open the breaker.

        Raises:
            Unavailable: the breaker is open; nothing is called.
        """
        if self.is_open:
            if self._now() < self._again_at:
                raise Unavailable(
                    f"{self._what} failed {self._failures} times in a row, and is tried again within "
                    f"{self._pause_s:g} s; the last failure: {self._reason}"
                )
            self._again_at = self._now() + self._pause_s  # this call is the trial; the others wait for its outcome
        try:
            yield
        except Unavailable as error:
            if error.code != REBUILDING:
                self._count(error)
            raise
        if self.is_open:
            log.info("circuit_closed", what=self._what)
        self._failures = 0

    def _count(self, error: Unavailable) -> None:
        self._failures += 1
        self._reason = error.sentence
        if self.is_open:
            self._again_at = self._now() + self._pause_s
        if self._failures == MOST_FAILURES:
            log.warning("circuit_opened", what=self._what, reason=error.sentence)
