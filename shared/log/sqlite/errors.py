"""What can go wrong with the file, in words both sides understand."""

import sqlite3
from pathlib import Path

from aiokafka.errors import KafkaError

from shared.errors import Unavailable


class LogUnavailable(Unavailable, KafkaError):  # type: ignore[misc]  # noqa: N818 - aiokafka has no types; named as its base
    """The file can't be read or written now; nothing of the request was stored, or all of it was.

    It is both: our callers retry an Unavailable, FastStream's loop waits on a KafkaError and reads again.
    """

    retriable = True


def unavailable(path: Path, error: sqlite3.Error) -> LogUnavailable:
    """Return the error as one of ours: it names the file and what SQLite said."""
    return LogUnavailable(f"the log {path.name} can't be used now: {error}", "log_unavailable")
