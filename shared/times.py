"""Moments as people and JSON read them."""

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """Return ISO 8601 in UTC with milliseconds, of ms since 1970: 2026-01-31T08:15:30.250Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
