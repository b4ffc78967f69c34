"""Why a record was given up, and how long to wait before it is tried again."""

import hashlib
import random
import traceback
from pathlib import PurePath

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a dead letter says about its record."""

    stage: str
    code: str
    sentence: str
    attempts: int
    first_seen: int  # ms since 1970: the first attempt
    last_seen: int  # and the last
    traceback_digest: str | None = None  # of a bug

    @property
    def suspicious(self) -> bool:
        """Return whether it may be our fault: a bug, or a body that our own code should be able to read."""
        return self.traceback_digest is not None or self.code == "undecodable"


class Backoff(msgspec.Struct, frozen=True):
    """Capped exponential backoff with full jitter, in seconds."""

    base_s: float = 0.2
    cap_s: float = 5.0

    def delay(self, attempt: int) -> float:
        """Return how long to wait after failure number `attempt`, from 0."""
        # 2 ** 30 and more is beyond any cap, and would overflow after a long night.
        return random.uniform(0, min(self.cap_s, self.base_s * 2 ** min(attempt, 30)))  # noqa: S311 - no secret


def traceback_digest(error: BaseException) -> str:
    """Return 64 hex digits: equal for the same bug, whatever the values, addresses and folders in its message."""
    digest = hashlib.sha256(type(error).__qualname__.encode())
    for frame in traceback.extract_tb(error.__traceback__):
        digest.update(f"\n{PurePath(frame.filename).name}:{frame.lineno}:{frame.name}".encode())
    return digest.hexdigest()
