"""Servers and logs that tests of any folder may ask for, how much is tried, the order of tests, and a last guard."""

import faulthandler
import os
from collections.abc import Generator

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

# What a test may take beyond its own time limit: the limit raises in the test, and the teardown after it may hang, too.
TEARDOWN_S = 120
_terminal = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the terminal: a test's own stderr is captured."""
    config.stash[_terminal] = os.dup(2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow ones first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that outlives its time limit by two minutes; a new worker carries on.

    One such test would otherwise hold the whole run for ever: `pytest-timeout` raises once, in the main thread.
    """
    marker = item.get_closest_marker("timeout")
    _end_process_in(item, TEARDOWN_S + float(marker.args[0] if marker else item.config.getini("timeout")))
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Guard the teardown of a failed test: pytest cancels every watchdog at a failure."""
    if isinstance(node, pytest.Item):
        _end_process_in(node, TEARDOWN_S)


def _end_process_in(item: pytest.Item, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_terminal])
