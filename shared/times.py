"""Timestamps as text."""

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """Return `ms` since 1970 as ISO 8601 in UTC with milliseconds, such as 2026-01-31T08:15:30.250Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
