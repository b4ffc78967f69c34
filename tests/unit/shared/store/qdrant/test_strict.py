from qdrant_client import models

from shared.store.qdrant.strict import LEAST, shortfalls


def test_a_collection_without_strict_mode_lacks_nothing() -> None:
    assert shortfalls(None) == []
    assert shortfalls(models.StrictModeConfigOutput(enabled=False, max_query_limit=1)) == []


def test_each_limit_that_is_too_low_is_named_with_what_is_needed() -> None:
    strict = models.StrictModeConfigOutput(enabled=True, max_query_limit=10, search_allow_exact=False)

    assert shortfalls(strict) == [
        f"max_query_limit 10, at least {LEAST['max_query_limit']} is needed",
        "search_allow_exact false, but counts must be exact",
    ]
