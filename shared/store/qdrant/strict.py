"""What we need of a collection in strict mode, where an operator limits what may be asked of it. Pure."""

from collections.abc import Mapping
from typing import Final

from qdrant_client import models

# Batches of points aren't here: they are halved until they fit. Filters use indexed fields only, but for those
# that a caller names.
LEAST: Final[Mapping[str, int]] = {
    "max_query_limit": 1016,  # 1000 hits, and some to spare for stale ones
    "search_max_batchsize": 2,  # dense and sparse
    "condition_max_size": 512,  # ids of one page
    "filter_max_conditions": 20,
}


def shortfalls(strict: models.StrictModeConfigOutput | None) -> list[str]:
    """Return what keeps us from working, as `limit 10, at least 20 is needed`; empty where nothing does."""
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
