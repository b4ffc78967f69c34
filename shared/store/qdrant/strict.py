"""Checks that a collection in strict mode, where an operator limits requests, allows what we need. Pure."""

from collections.abc import Mapping
from typing import Final

from qdrant_client import models

# Batches of points aren't listed: they are halved until they fit. Our own filters use indexed fields only.
LEAST: Final[Mapping[str, int]] = {
    "max_query_limit": 1016,  # 1000 hits, and a few more because some may be stale
    "search_max_batchsize": 2,  # dense and sparse
    "condition_max_size": 512,  # ids of one page
    "filter_max_conditions": 20,
}


def shortfalls(strict: models.StrictModeConfigOutput | None) -> list[str]:
    """Return the limits that are too low, as `limit 10, at least 20 is needed`; empty if there are none."""
    if strict is None or not strict.enabled:
        return []
    found = [
        f"{name} {given}, at least {least} is needed"
        for name, least in LEAST.items()
        if (given := getattr(strict, name)) is not None and given < least
    ]
    if strict.search_allow_exact is False:
        found.append("search_allow_exact false, but counts must be exact")
    return found
