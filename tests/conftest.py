"""Servers and logs that tests of any folder may ask for, and how tests are shared out among workers."""

import pytest

pytest_plugins = (
    "tests.contract.logs",
    "tests.servers.kafka",
    "tests.servers.ollama",
    "tests.servers.qdrant",
    "tests.servers.s3",
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share something started with one worker; run the longest first, so that none waits at the end."""
    for item in items:
        if _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("slow", "xdist_group")])


def _shares(item: pytest.Item) -> bool:
    """Return whether the test uses what is started once for its module: each worker would start it for itself."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return any(fixture.scope == "module" for fixtures in known.values() for fixture in fixtures)
