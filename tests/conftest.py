"""Servers and logs for tests of any folder, how much is tried, what runs in which order, and a last guard."""

import faulthandler
import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.selection import COLLECTED, COSTLY_S, IN_CI, this_run

pytest_plugins = (
    "tests.contract.logs",
    "tests.servers.kafka",
    "tests.servers.ollama",
    "tests.servers.qdrant",
    "tests.servers.s3",
)


def remove_left(temporary: Path) -> None:
    """Remove what runs that were killed left there: up to a GB of memory, which pytest itself keeps for three days."""
    for lock in temporary.glob("pytest-of-*/pytest-*/.lock"):
        with suppress(OSError):  # another run removes it, too
            if (pid := lock.read_text()).isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(lock.parent, ignore_errors=True)


MEMORY, MEMORY_BYTES = Path("/dev/shm"), 6 << 30
settings.register_profile("here", max_examples=20, deadline=None)  # a fifth of what CI tries; none has a deadline there
if not IN_CI:
    settings.load_profile("here")
    # A third of the time would go to the disk. CI's tests write to a real one.
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # pytest has asked for it
        remove_left(MEMORY)

GC_THRESHOLDS = 50_000, 20, 50  # 700, 10, 10 by default; a twentieth of the CPU time
# What a test may take beyond its own time limit: the limit raises in the test, and the teardown after it may hang, too.
TEARDOWN_S = 120
_terminal = pytest.StashKey[int]()
TOLD, LEFT_OUT, COSTLY = "sluice: told", "left out", "costly"
_told = pytest.StashKey[dict[str, list[Any]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the terminal: a test's own stderr is captured."""
    config.stash[_terminal] = os.dup(2)
    config.stash[_told] = {}
    if hasattr(config, "workeroutput"):
        config.workeroutput[TOLD] = config.stash[_told]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and have it run seldom: its rounds go through all that was imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Leave out what this run doesn't take, and run the slow ones first.

    So no worker is left alone with one of them at the end.
    """
    config.stash[COLLECTED] = tuple(items)
    yield  # -k and -m choose
    run = this_run(whole=not config.option.file_or_dir)
    taken = [item for item in items if run.takes(item.location[0], item.iter_markers())]
    _tell(config, LEFT_OUT, len(items) - len(taken))
    items[:] = sorted(taken, key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests were left out, and how they run."""
    told = config.stash[_told]
    if left_out := max(told.get(LEFT_OUT, [0])):  # each worker has collected all
        to = "another commit" if IN_CI else "CI as costly, or to another commit"
        terminalreporter.write_line(f"left to {to}: {left_out} tests")
    if costly := sorted(told.get(COSTLY, [])):
        terminalreporter.write_line(f"costly, but not left to CI, see tests/selection.py: {', '.join(costly)}")


def _tell(config: pytest.Config, what: str, value: Any) -> None:
    """Keep a value for the summary; a worker sends its own at its end."""
    config.stash[_told].setdefault(what, []).append(value)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker told."""
    for what, values in getattr(node, "workeroutput", {}).get(TOLD, {}).items():
        node.config.stash[_told].setdefault(what, []).extend(values)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End the process of a test that outlives its time limit by two minutes; a new worker carries on.

    One such test would otherwise hold the whole run for ever: `pytest-timeout` raises once, in the main thread.
    """
    marker = item.get_closest_marker("timeout")
    _end_process_in(item, TEARDOWN_S + float(marker.args[0] if marker else item.config.getini("timeout")))
    began = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        cpu_s = sum(os.times()[:4]) - began
        # The last one of a worker ends what all have used.
        if cpu_s > COSTLY_S and nextitem is not None and not IN_CI and item.get_closest_marker("story") is None:
            _tell(item.config, COSTLY, f"{item.nodeid} ({cpu_s:.0f} s of CPU time)")


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(report: object) -> None:
    """Leave out of a worker's report what a passed test has printed: sending it takes a tenth of the CPU time."""
    if isinstance(report, pytest.TestReport) and report.passed:
        report.sections = []


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Guard the teardown of a failed test: pytest cancels every watchdog at a failure."""
    if isinstance(node, pytest.Item):
        _end_process_in(node, TEARDOWN_S)


def _end_process_in(item: pytest.Item, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_terminal])
