"""Servers and logs that tests of any folder may ask for, and the order in which tests run."""

import pytest

pytest_plugins = (
    "tests.contract.logs",
    "tests.servers.kafka",
    "tests.servers.ollama",
    "tests.servers.qdrant",
    "tests.servers.s3",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow ones first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
