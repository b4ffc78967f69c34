"""The comparison with other programs: what it gives them, how it counts, and that its page shows all it measures."""

import ast
import re
from pathlib import Path

import pytest

from tests.bench.peers import corpus, figures
from tests.bench.peers.environments import REQUIREMENTS
from tests.bench.peers.figures import BEGIN, END, PAGE, Figures, Missing, Outcome, Rate, Turns

ASKED = sorted(REQUIREMENTS.glob("*.in"))
SCRIPTS = [path for name in ("bare", *figures.NAMES) if (path := REQUIREMENTS.parent / f"{name}.py").exists()]
FINE = Outcome(seconds=2.0, cpu_s=4.0, embedded=10, missing=0, stale=0, duplicates=0)
SEEN = Figures(
    versions="one 1.0, two 2.0",
    lines=12,
    installed_mb=345.6,
    documents=20,
    chunks=120,
    first=FINE,
    again=FINE,
    edited=Outcome(seconds=1.0, cpu_s=2.0, embedded=1, missing=1, stale=2, duplicates=3),
    deleted=FINE,
    killed_at=60,
    killed=Outcome(seconds=1.0, cpu_s=2.0, embedded=80, missing=0, stale=0, duplicates=0),
    search_p50=1.0,
    search_p95=2.0,
    query_p50=0.5,
    memory_mb=100.0,
    load=0.5,
    at="2026-01-01 00:00",
)


def test_every_paragraph_is_a_chunk_of_its_own_and_no_two_are_alike() -> None:
    texts = corpus.documents(60)
    parts = [part for text in texts.values() for part in corpus.paragraphs(text)]

    assert len(set(parts)) == len(parts)
    assert max(map(len, parts)) <= corpus.CHUNK_SIZE
    assert 2 * min(map(len, parts)) > corpus.CHUNK_SIZE
    assert texts == corpus.documents(60)


def test_an_edit_replaces_one_paragraph() -> None:
    text = corpus.documents(1)["page-000.md"]
    before, after = corpus.paragraphs(text), corpus.paragraphs(corpus.edited(text))

    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_the_folder_holds_the_documents_and_nothing_else(tmp_path: Path) -> None:
    corpus.write({"a.md": "one", "b.md": "two"}, tmp_path)
    corpus.write({"b.md": "two!"}, tmp_path)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b.md": "two!"}


@pytest.mark.parametrize("asked", ASKED, ids=lambda path: path.stem)
def test_what_a_peer_needs_is_pinned_with_hashes_and_names_no_host(asked: Path) -> None:
    pinned = asked.with_suffix(".txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==\S+.*\\\n    --hash=sha256:[0-9a-f]{64}", pinned, re.MULTILINE)
    wanted = {re.split(r"[\[=]", line)[0] for line in asked.read_text(encoding="utf-8").split()}

    assert wanted <= set(pins)
    assert len(pins) == len(re.findall(r"^[a-z0-9._-]+.*==", pinned, re.MULTILINE))
    assert "://" not in asked.read_text(encoding="utf-8") + pinned


def test_every_peer_has_requirements() -> None:
    assert {path.stem for path in ASKED} == {name for name in figures.NAMES if not name.startswith("sluice")}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_loads_searches_and_tells_what_is_stored(script: Path) -> None:
    functions = {each.name for each in ast.parse(script.read_text()).body if isinstance(each, ast.FunctionDef)}

    assert {"load", "searching", "stored"} <= functions


def test_lines_that_a_user_would_not_write_are_not_counted() -> None:
    source = '''"""A docstring."""

import one  # counted


class MiniLM:
    """The adapter."""

    def embed(self): ...


@counted
def load(folder):
    """Two
    lines."""
    # a comment
    return one(folder)


def stored():
    return []
'''

    assert figures.written_lines(source) == 4


def test_the_table_says_what_was_wrong_and_who_is_missing() -> None:
    table = figures.table({"chroma": SEEN, "txtai": Missing("txtai 9", "its installation takes more than 2 GB")})

    assert "| one paragraph edited | 1.0 s, 1 embedded, 1 missing, 2 stale, 3 twice in the store |" in table
    assert "| … embedded twice | 20 |" in table
    assert "txtai (txtai 9) was not measured: its installation takes more than 2 GB." in table
    assert "Not measured yet: Sluice, Sluice, `minilm:`, LangChain, LlamaIndex, Haystack, CocoIndex." in table


def test_turns_are_compared_with_the_bare_loop_by_their_best() -> None:
    slow, fast = Rate(4.0, 4.0, load=9.0), Rate(2.0, 3.0, load=1.0)
    turns = Turns(20, {"bare-engine": [slow], "bare-callers": [fast], "chroma": [slow, fast, slow]})
    table = figures.table({"turns": turns})

    assert "| Chroma | 10.0 | 5.0 | 2.00 | 1.00 |" in table
    assert "the best of 1 or 3 turns" in table
    assert "load was 1 to 9" in table


def test_figures_are_kept_from_run_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "comparison.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    monkeypatch.setattr(figures, "PAGE", page)
    figures.keep(tmp_path / "seen.json", {"chroma": SEEN})

    assert figures.kept(tmp_path / "seen.json") == {"chroma": SEEN}
    assert page.read_text() == f"before\n{BEGIN}\n{figures.table({'chroma': SEEN})}\n{END}\nafter\n"


def test_the_page_shows_all_that_is_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = page[page.index(BEGIN) : page.index(END)].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| | "))
    heads = [line.split(" | ")[0].removeprefix("| ") for line in lines[start + 2 :] if line.startswith("| ")]
    names = [head.strip() for head in lines[start].strip("|").split("|")]

    assert heads == list(figures.rows())
    assert [name for name in names if name] == [name for name in figures.NAMES.values() if name in names]
    assert all(any(name in line for line in lines) for name in figures.NAMES.values())
