"""Timestamps as text."""

from datetime import UTC, datetime


def parse_iso(text: str) -> int:
    """Return an ISO 8601 time as ms since 1970; without a zone it is UTC.

    Raises:
        ValueError: the text isn't a time.
    """
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def iso(ms: int) -> str:
    """Return `ms` since 1970 as ISO 8601 in UTC with milliseconds, such as 2026-01-31T08:15:30.250Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
