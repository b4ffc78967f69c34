"""Every test runs somewhere: CI takes each of them in one of four quarters, and no skip hides one."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import remove_left
from tests.selection import CI_ONLY, COLLECTED, FOLDERS, LONG_RUN_ONLY, QUARTERED, QUARTERS, SERVERS, STORY, Run
from tests.servers import qdrant

ROOT = Path(__file__).resolve().parents[2]
HERE = Run(ci=False)
QUARTERS_OF_CI = tuple(Run(ci=True, quarter=number) for number in range(QUARTERS))
LONG = Run(ci=True, long=True, quarter=7)
CHEAP, COSTLY = "tests/unit/test_ids.py", "tests/e2e/test_kill.py"

LONG_RUNS = {  # make chaos FAULT=soak; by hand
    "tests/e2e/test_soak.py",
    "tests/faults/test_frozen_parts.py",
    "tests/integration/test_reindex_seeds.py",
}
# How often a file may skip: each place asks for something that a machine may lack.
SKIPS = {
    "tests/contract/test_store.py": 1,
    "tests/e2e/browser.py": 1,
    "tests/integration/clients/test_libraries.py": 2,
    "tests/integration/clients/test_n8n_node.py": 2,
    "tests/integration/test_hostile_parser.py": 1,
    "tests/integration/test_qdrant.py": 1,
    "tests/integration/test_slow_files.py": 1,
    "tests/servers/choice.py": 1,
    "tests/servers/qdrant.py": 1,
    "tests/unit/deploy/test_host.py": 1,
    "tests/unit/deploy/test_k8s.py": 1,
    "tests/unit/deploy/test_monitoring.py": 1,
    "tests/unit/deploy/test_n8n.py": 1,
    "tests/unit/services/ingest_worker/fetch/test_namespace.py": 1,
    "tests/unit/services/operator_cli/test_doctor.py": 1,
    "tests/unit/shared/embedder/test_minilm.py": 2,
    "tests/unit/shared/runtime/test_privacy.py": 2,
    "tests/unit/shared/sandbox/test_seccomp.py": 2,
    "tests/unit/shared/store/test_edge.py": 1,
    "tests/unit/shared/store/test_file_prefetch.py": 2,
}
# Whatever keeps a test from running.
SKIPPING = {"skip", "skipif", "importorskip", "skipTest", "xfail", "collect_ignore", "collect_ignore_glob", "__test__"}


def test_each_mark_leaves_a_test_to_the_runs_it_names() -> None:
    def taken(file: str, *marks: pytest.MarkDecorator) -> tuple[bool, int, bool]:
        """Return whether a developer's run takes it, in how many quarters CI does, and whether a long run does."""
        here, *ci, long = (run.takes(file, [each.mark for each in marks]) for run in (HERE, *QUARTERS_OF_CI, LONG))
        return here, sum(ci), long

    assert taken(CHEAP) == (True, QUARTERS, True)
    assert taken(CHEAP, CI_ONLY) == (False, 1, True)
    assert taken(CHEAP, pytest.mark.server) == (False, 1, True)
    assert Run(ci=False, servers=True).takes(CHEAP, [pytest.mark.server.mark])
    assert taken(COSTLY) == (False, 1, True)
    assert taken(COSTLY, STORY) == (True, QUARTERS, True)
    assert Run(ci=True).takes(COSTLY, [])
    assert taken(COSTLY, LONG_RUN_ONLY) == (False, 0, True)


@pytest.mark.parametrize("file", ["tests/integration/clients/test_openai.py", "tests/contract/test_store.py"])
def test_a_developers_whole_runs_take_turns_with_the_files_that_take_longest(file: str) -> None:
    whole = [Run(ci=False, quarter=number).takes(file, []) for number in range(QUARTERS)]

    assert sum(whole) == 1
    assert HERE.takes(file, [])
    assert all(run.takes(file, []) for run in QUARTERS_OF_CI)
    assert all(Run(ci=False, quarter=number).takes(CHEAP, []) for number in range(QUARTERS))


def test_what_a_killed_run_left_in_memory_is_removed_and_what_another_one_uses_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for name, owner in (("pytest-1", str(gone.pid)), ("pytest-2", str(os.getpid())), ("pytest-3", "")):
        (tmp_path / "pytest-of-me" / name).mkdir(parents=True)
        (tmp_path / "pytest-of-me" / name / ".lock").write_text(owner)
    (tmp_path / "pytest-of-me" / "pytest-4").mkdir()

    remove_left(tmp_path)

    assert {each.name for each in (tmp_path / "pytest-of-me").iterdir()} == {"pytest-2", "pytest-3", "pytest-4"}


def test_the_folders_that_are_left_to_ci_are_there() -> None:
    assert [folder for folder in (*FOLDERS, *QUARTERED) if not (ROOT / folder).is_dir()] == []


def test_ci_runs_each_test_in_one_of_its_quarters(request: pytest.FixtureRequest) -> None:
    def runs_nowhere(item: pytest.Item) -> bool:
        return not any(run.takes(item.location[0], item.iter_markers()) for run in QUARTERS_OF_CI)

    collected = request.config.stash[COLLECTED]

    assert {item.location[0] for item in collected if runs_nowhere(item)} <= LONG_RUNS
    assert [item.nodeid for item in collected if not LONG.takes(item.location[0], item.iter_markers())] == []


@cache
def sources() -> dict[str, str]:
    """Return the code of all tests by file."""
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in (ROOT / "tests").rglob("*.py")}


def test_a_test_is_skipped_only_where_a_machine_lacks_something() -> None:
    def skips(node: ast.AST) -> bool:
        return getattr(node, "attr", getattr(node, "id", None)) in SKIPPING

    named = {file: code for file, code in sources().items() if any(word in code for word in SKIPPING)}
    counts = {file: sum(map(skips, ast.walk(ast.parse(code)))) for file, code in named.items()}

    assert {file: count for file, count in counts.items() if count} == SKIPS


def test_each_file_with_tests_is_one_that_pytest_reads() -> None:
    unread = [
        file
        for file, code in sources().items()
        if not Path(file).name.startswith("test_") and "def test_" in code
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert unread == []


def test_a_server_that_is_named_is_named_where_the_tests_look_for_it() -> None:
    assert qdrant.URL in SERVERS
