"""The page of the two sizes claims nothing without a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.readme import ROOT

PAGE = ROOT / "docs/sizes.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LINES = [
    line
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith("| -")
]


@cache
def defined_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in defined if node.name.startswith("test_"))


@pytest.mark.parametrize(("file", "name"), sorted({found for line in LINES for found in NAMED.findall(line)}))
def test_every_test_it_names_exists(file: str, name: str) -> None:
    assert name in defined_in(ROOT / file)


def test_every_line_names_a_test() -> None:
    claims = [line for line in LINES if not line.endswith("shown by |")]

    assert len(claims) > 20
    assert [line for line in claims if not NAMED.search(line)] == []
