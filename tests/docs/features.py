"""The list of features with the tests that prove each, read from the tests' marks without running them."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

from tests.docs.feature_list import FEATURES, GROUPS, UNTESTED

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 3  # tests of one feature


def marks() -> dict[int, list[tuple[str, str]]]:
    """Return for each marked feature its tests: file and name."""
    found: dict[int, list[tuple[str, str]]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "mark.feature(" not in text:
            continue
        name = file.relative_to(ROOT).as_posix()
        module = ast.parse(text)
        whole = [*_numbers(node.value for node in module.body if _is_for_all(node))]
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in (*whole, *_numbers(node.decorator_list)):
                    found.setdefault(number, []).append((name, node.name))
    return found


def _is_for_all(node: ast.stmt) -> TypeGuard[ast.Assign]:
    """Return whether the statement marks all tests of its module."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _numbers(within: Iterable[ast.expr]) -> Iterator[int]:
    for each in (found for part in within for found in ast.walk(part)):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.feature":
            for number in each.args:
                value = ast.literal_eval(number)
                assert isinstance(value, int), f"{value!r} is no number of a feature"
                yield value


def table() -> str:
    """Return the page's tables: each feature with its tests, or with the reason why it has none."""
    proved = marks()
    lines: list[str] = []
    for group, numbers in GROUPS.items():
        rows = [_row(number, proved) for number in numbers if number in FEATURES]
        lines += [f"## {group}", "", "| | feature | proved by |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(number: int, proved: dict[int, list[tuple[str, str]]]) -> str:
    tests = proved.get(number, [])
    names: dict[str, list[str]] = {}
    for file, name in tests[:SHOWN]:
        names.setdefault(file, []).append(f"`{name}`")
    cells = [f"[`{Path(file).name}`](../{file}) {', '.join(named)}" for file, named in names.items()]
    more = [f"{len(tests) - SHOWN} more"] if len(tests) > SHOWN else []
    reason = [f"**No test.** {UNTESTED[number]}"] if number in UNTESTED else []
    return f"| {number} | {FEATURES[number]} | {'; '.join([*cells, *more, *reason])} |"
