"""Turns SQLite's errors into ours."""

import sqlite3
from pathlib import Path

from shared.log.errors import LogUnavailable

__all__ = ["LogUnavailable", "unavailable"]


def unavailable(path: Path, error: sqlite3.Error) -> LogUnavailable:
    """Return our error, which names the file and quotes SQLite."""
    return LogUnavailable(f"the log {path.name} can't be used now: {error}", "log_unavailable")
