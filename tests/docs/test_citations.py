"""Whatever code or pages cite exists: sections of the rule book, invariants, decisions, pages."""

import re
from collections.abc import Iterator

from tests.docs.readme import DECISIONS, ROOT

RULES = (ROOT / "docs/correctness.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^## (\d+)\. ", RULES, re.MULTILINE))
INVARIANTS = set(re.findall(r"^\| (I\d) \|", RULES, re.MULTILINE))
CITED_SECTIONS = re.compile(r"correctness\.md\)?,? sections? (\d+)((?:, \d+)*)(?: and (\d+))?")
CITED_INVARIANT = re.compile(r"\bI\d\b")
CITED_DECISION = re.compile(r"\bADRs? (\d{4})|docs/adr/(\d{4})-|adr/(\d{4})-")
CITED_PAGE = re.compile(r"(?<![\w/.])(docs/[\w/-]+\.(?:md|png))")
CITED_TESTS = re.compile(r"\]\(([\w./]*/test_\w+\.py)\)((?:,? `test_\w+`)+)")
NAMED_TEST = re.compile(r"`(test_\w+)`")
OURS = ("services", "shared", "tests", "deploy", "docs", "*.md", "Makefile", "compose.yaml", "pyproject.toml")


def texts() -> Iterator[tuple[str, str]]:
    for pattern in OURS:
        for top in ROOT.glob(pattern):
            for file in [top] if top.is_file() else sorted(top.rglob("*")):
                if file.suffix in (".py", ".md", ".yaml", ".toml") or file.name == "Makefile":
                    yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def test_every_cited_section_of_the_rule_book_exists() -> None:
    cited = [
        (name, section)
        for name, text in texts()
        for match in CITED_SECTIONS.finditer(text)
        for section in re.findall(r"\d+", match[0].partition("section")[2])
    ]

    assert cited, "nobody cites the rule book: the pattern is wrong"
    assert [each for each in cited if each[1] not in SECTIONS] == []


def test_every_cited_invariant_exists() -> None:
    cited = [(name, found) for name, text in texts() for found in CITED_INVARIANT.findall(text)]

    assert [each for each in cited if each[1] not in INVARIANTS] == []


def test_every_cited_decision_exists() -> None:
    numbers = {page.name[:4] for page in DECISIONS.glob("[0-9]*.md")}
    cited = [
        (name, next(filter(None, match.groups()))) for name, text in texts() for match in CITED_DECISION.finditer(text)
    ]

    assert [each for each in cited if each[1] not in numbers] == []


def test_every_cited_page_exists() -> None:
    cited = [(name, page) for name, text in texts() for page in CITED_PAGE.findall(text)]

    assert [each for each in cited if not (ROOT / each[1]).exists()] == []


def test_every_test_that_a_page_names_exists() -> None:
    """A table's cell names a file and, after it, its tests."""
    missing = []
    for page in (ROOT / "docs").rglob("*.md"):
        for file, names in CITED_TESTS.findall(page.read_text(encoding="utf-8")):
            target = page.parent / file
            code = target.read_text(encoding="utf-8") if target.is_file() else ""
            missing += [(page.name, file, name) for name in NAMED_TEST.findall(names) if f"def {name}(" not in code]

    assert CITED_TESTS.search((ROOT / "docs/security.md").read_text(encoding="utf-8")), "the pattern is wrong"
    assert missing == []


def test_nobody_cites_a_page_that_only_its_author_had() -> None:
    private = re.compile(
        r"\b(?:CORRECTNESS|DESIGN|HOUSE_STYLE)\b (?=\d)|shared/(?:CORRECTNESS|DESIGN|HOUSE_STYLE|reference)"
    )

    found = [name for name, text in texts() if name != "tests/docs/test_citations.py" and private.search(text)]

    assert found == []
