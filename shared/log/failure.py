"""Why a record was dead-lettered, and the delay between retries."""

import hashlib
import random
import traceback
from pathlib import PurePath

import msgspec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The reason in a dead letter."""

    stage: str
    code: str
    sentence: str
    attempts: int
    first_seen: int  # time of the first attempt, ms since 1970
    last_seen: int  # time of the last attempt, ms since 1970
    traceback_digest: str | None = None  # only for a bug

    @property
    def suspicious(self) -> bool:
        """Return whether our code may be at fault: it raised, or couldn't decode the body."""
        return self.traceback_digest is not None or self.code == "undecodable"


class Backoff(msgspec.Struct, frozen=True):
    """Capped exponential backoff with full jitter, in seconds."""

    base_s: float = 0.2
    cap_s: float = 5.0

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after failure number `attempt`, counted from 0."""
        # 2 ** 30 exceeds any cap; an unlimited exponent would overflow in a long outage.
        return random.uniform(0, min(self.cap_s, self.base_s * 2 ** min(attempt, 30)))  # noqa: S311 - no secret


def traceback_digest(error: BaseException) -> str:
    """Return 64 hex digits that are equal for the same bug: values, addresses and folders don't count."""
    digest = hashlib.sha256(type(error).__qualname__.encode())
    for frame in traceback.extract_tb(error.__traceback__):
        digest.update(f"\n{PurePath(frame.filename).name}:{frame.lineno}:{frame.name}".encode())
    return digest.hexdigest()
