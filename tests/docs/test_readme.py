"""The first page is true: its links lead somewhere, its output is what comes out, its lines work when pasted."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs import readme
from tests.e2e.harness import Server, served
from tests.selection import CI_ONLY

TEXT = readme.README.read_text(encoding="utf-8")
PAGES = [
    *sorted(readme.ROOT.glob("*.md")),
    *sorted(readme.ROOT.glob("docs/**/*.md")),
    *sorted(readme.ROOT.glob("deploy/**/*.md")),
]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)[^)]*\)")
SECTION_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")


def sections(page: Path) -> set[str]:
    """Return the anchors of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_section_leads_to_its_heading(page: Path) -> None:
    links = SECTION_LINK.findall(page.read_text(encoding="utf-8"))

    targets = [((page.parent / file) if file else page, section) for file, section in links]
    assert [(file.name, section) for file, section in targets if section not in sections(file)] == []


def test_the_table_of_decisions_is_the_folder() -> None:
    assert readme.block("decisions") == readme.decisions()


def test_decisions_are_kept_by_subject_in_at_most_32_pages() -> None:
    assert len(list(readme.DECISIONS.glob("[0-9]*.md"))) <= 32


def test_every_page_is_found_from_the_index_of_pages() -> None:
    index = readme.ROOT / "docs/README.md"
    linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = {page.resolve() for page in (readme.ROOT / "docs").glob("*.md")} - {index.resolve()}

    assert {page.name for page in pages - linked} == set()


def test_the_first_page_is_read_in_five_minutes() -> None:
    assert len(TEXT.splitlines()) <= 160


@pytest.mark.parametrize("page", sorted(readme.DECISIONS.glob("[0-9]*.md")), ids=lambda page: page.name)
def test_a_decision_says_why_what_follows_and_what_was_rejected(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.startswith(f"# {page.name[:4]} ")
    order = [text.index(f"**{part}.**") for part in ("Context", "Decision", "Consequences", "Rejected")]
    assert order == sorted(order)


def test_the_table_of_settings_is_the_class() -> None:
    assert readme.block("settings") == readme.settings_table()


def test_every_setting_has_its_meaning_in_the_comment_beside_it() -> None:
    assert [row for row in readme.settings_table().splitlines() if row.endswith("|  |")] == []


def test_the_targets_are_the_makefile_s() -> None:
    assert readme.block("targets") == readme.targets()


@CI_ONLY
@pytest.mark.slow
def test_the_demo_prints_what_the_page_shows() -> None:
    assert readme.steady(readme.block("demo")) == readme.steady(readme.demo())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("readme") / "data", SAMPLES="on", LOG_LEVEL="error") as started:
        readme.printed(started, readme.LOADED)
        yield started


def curl(line: str, server: Server) -> Any:
    arguments = shlex.split(line.replace(readme.SHOWN_URL, server.url))
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(ran.stdout)


@CI_ONLY
@pytest.mark.slow
def test_the_first_start_prints_what_the_page_shows(server: Server) -> None:
    printed = readme.printed(server, readme.LOADED).replace(server.url, readme.SHOWN_URL)

    assert readme.block("run") == f"```console\n$ make run\n{printed}```\n"


@CI_ONLY
@pytest.mark.slow
def test_the_curl_lines_work_when_pasted(server: Server) -> None:
    lines = re.findall(r"^ *(curl .*)$", TEXT, re.MULTILINE)

    search, question, ingest, own_question = (curl(line, server) for line in lines)

    assert search["results"][0]["metadata"]["path"] == "prices.md"
    assert "weekends only, 11:00 to 15:00" in question["response"]
    assert (ingest["status"], ingest["chunkCount"]) == ("created", 1)
    assert "blue tin" in own_question["response"]


@pytest.mark.slow
def test_the_commands_the_page_names_exist() -> None:
    named = set(re.findall(r"sluice (ingest|search|ask|doctor|serve|demo)\b", TEXT))
    help_ = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "--help"], capture_output=True, text=True, check=True
    ).stdout

    assert {"ingest", "search", "ask", "doctor"} <= named
    assert [name for name in named if name not in help_] == []
