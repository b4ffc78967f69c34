"""Servers and logs that tests of any folder may ask for, how much is tried, and the order in which tests run."""

import pytest
from hypothesis import settings

from tests.servers.cache import IN_CI

pytest_plugins = (
    "tests.contract.logs",
    "tests.servers.kafka",
    "tests.servers.ollama",
    "tests.servers.qdrant",
    "tests.servers.s3",
)

settings.register_profile("here", max_examples=20, deadline=None)  # a fifth of what CI tries; none has a deadline there
if not IN_CI:
    settings.load_profile("here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow ones first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
