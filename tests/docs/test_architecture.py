"""docs/architecture.md: each class and function that it names is defined in a file that its row links."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
_NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)?)`")
_LINK = re.compile(r"\]\(\.\./([\w/.]+\.py)\)")


def named() -> list[tuple[str, tuple[str, ...]]]:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return [
        (name, tuple(_LINK.findall("|".join(row[2:]))))
        for row in rows
        if _LINK.search("|".join(row[2:]))
        for name in _NAME.findall(row[1])
        if not name.startswith("documents.")  # a topic
    ]


def test_the_page_names_functions() -> None:
    assert len(named()) >= 8


@pytest.mark.parametrize(("name", "files"), named())
def test_what_a_row_names_is_defined_in_a_file_that_it_links(name: str, files: tuple[str, ...]) -> None:
    source = "\n".join(
        each.read_text("utf-8")
        for file in files
        for each in ((ROOT / file).parent.rglob("*.py") if file.endswith("__init__.py") else [ROOT / file])
    )

    for part in name.split("."):
        assert re.search(rf"\b(?:def|class) {part}\b", source), f"{part} is in none of {', '.join(files)}"
