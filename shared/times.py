"""Timestamps as text, how long one task may hold the event loop, and how long a caller waits for a part."""

import asyncio
import math
import re
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from shared.fair_queue import Rotation

HELD_S: Final = 0.005  # how long a loop over many items may hold the event loop
# Seconds that each question to the store or the log may take for whoever asks it, if its adapter waits longer.
PATIENCE: ContextVar[float] = ContextVar("patience", default=math.inf)


class LoopTurns:
    """Gives the event loop back every few milliseconds. Of all that do, one goes on in each of its iterations."""

    _rotations: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Rotation]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give(self) -> None:
        """Let others run if this has held the event loop for `HELD_S`."""
        if time.perf_counter() - self._since > HELD_S:
            loop = asyncio.get_running_loop()
            turn = asyncio.Event()
            loop.call_soon(self._rotations.setdefault(loop, Rotation()).add, None, turn.set)
            await turn.wait()
            self._since = time.perf_counter()


def now_ms() -> int:
    """Return the time by this machine's clock, ms since 1970."""
    return time.time_ns() // 1_000_000


def parse_iso(text: str) -> int:
    """Return an ISO 8601 time as ms since 1970; without a zone it is UTC.

    Raises:
        ValueError: the text isn't a time.
    """
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def offset_or_time(given: int | str) -> dict[str, int]:
    """Return `offset`, or `time` in ms since 1970, whichever of the two it is; as a text, an offset has digits only.

    Raises:
        ValueError: it is neither.
    """
    text = str(given)
    if text.isascii() and text.isdigit() and len(text) < 19:
        return {"offset": int(text)}
    return {"time": parse_iso(text)}


def iso(ms: int) -> str:
    """Return `ms` since 1970 as ISO 8601 in UTC with milliseconds, such as 2026-01-31T08:15:30.250Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds in a Retry-After header, which holds a number or a date; None where it holds neither."""
    text = retry_after.strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text):
        return float(text)
    at = http_date(text)
    return None if at is None else max(at - time.time(), 0.0)


def http_date(text: str) -> float | None:
    """Return the seconds since 1970 of a date in a header; None where it is none."""
    if len(text) > 100 or not text.isascii():
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
