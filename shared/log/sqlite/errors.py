"""What can go wrong with the file."""

import sqlite3
from pathlib import Path

from shared.log.errors import LogUnavailable

__all__ = ["LogUnavailable", "unavailable"]


def unavailable(path: Path, error: sqlite3.Error) -> LogUnavailable:
    """Return the error as one of ours: it names the file and what SQLite said."""
    return LogUnavailable(f"the log {path.name} can't be used now: {error}", "log_unavailable")
