"""What is measured of each system, and the table in docs/comparison.md."""

import ast
import os
import platform
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.peers.corpus import ROOT

PAGE = ROOT / "docs" / "comparison.md"
BEGIN, END = "<!-- begin: peers -->", "<!-- end: peers -->"
NAMES = {  # in the order of the columns
    "sluice": "Sluice",
    "sluice-float32": "Sluice, `minilm:`",
    "langchain": "LangChain",
    "llamaindex": "LlamaIndex",
    "haystack": "Haystack",
    "cocoindex": "CocoIndex",
    "chroma": "Chroma",
    "txtai": "txtai",
}
BARE = {"bare-engine": "bare loop", "bare-callers": "its faster form"}
_NOT_WRITTEN = {"MiniLM", "stored"}  # the adapter of the weights, and the check


class Outcome(Struct, frozen=True):
    """How long a load took, and how the store compares with the folder after it."""

    seconds: float
    cpu_s: float  # of all its processes
    embedded: int  # texts given to the model
    missing: int  # chunks that the store lacks
    stale: int  # chunks that the folder no longer has
    duplicates: int


class Figures(Struct, frozen=True, kw_only=True, tag="measured"):
    """What was seen of one system."""

    versions: str
    lines: int  # that a user writes
    installed_mb: float
    documents: int
    chunks: int
    first: Outcome
    again: Outcome
    edited: Outcome
    deleted: Outcome
    killed_at: int  # texts embedded when it was killed
    killed: Outcome  # the load after that
    search_p50: float  # ms, with the query's embedding
    search_p95: float
    query_p50: float  # of the embedding alone
    memory_mb: float  # the highest sum of all processes' proportional set sizes
    load: float  # of the machine: processes that ran or wanted to, a minute's mean, when it began
    at: str


class Missing(Struct, frozen=True, tag="missing"):
    """A system that was not measured, and why."""

    versions: str
    why: str


class Rate(Struct, frozen=True):
    """A first load, as one of several in turn."""

    seconds: float
    cpu_s: float
    load: float  # of the machine when it began


class Turns(Struct, frozen=True, tag="turns"):
    """First loads of all systems in turn, and of the bare loop, by their names."""

    documents: int
    rates: dict[str, list[Rate]]


Seen = dict[str, Figures | Missing | Turns]


def kept(file: Path) -> Seen:
    """Return what earlier runs saw."""
    return msgspec.json.decode(file.read_bytes(), type=Seen) if file.exists() else {}


def keep(file: Path, seen: Seen) -> None:
    """Write the page's table from it, and keep it for the next run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(seen)))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(seen)}\n{END}{after}", encoding="utf-8")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def rows() -> dict[str, Callable[[Figures], str]]:
    """Return the table's rows: their head, and what a system's cell shows."""
    return {
        "versions": lambda it: it.versions,
        "lines a user writes": lambda it: f"{it.lines}",
        "installed": lambda it: f"{it.installed_mb:,.0f} MB",
        "memory": lambda it: f"{it.memory_mb:,.0f} MB",
        "first load": lambda it: _load(it.first),
        "again, unchanged": lambda it: _load(it.again),
        "one paragraph edited": lambda it: _load(it.edited),
        "one document deleted": lambda it: _load(it.deleted),
        "killed with -9 at": lambda it: f"{it.killed_at:,} of {it.chunks:,} embedded",
        "… then loaded again": lambda it: _load(it.killed),
        "… embedded twice": lambda it: f"{max(0, it.killed_at + it.killed.embedded - it.chunks):,}",
        "search p50 / p95": lambda it: f"{it.search_p50:.1f} / {it.search_p95:.1f} ms",
        "… of it the query's embedding": lambda it: f"{it.query_p50:.1f} ms",
        "machine's load before": lambda it: f"{it.load:.1f}",
        "measured": lambda it: it.at,
    }


def table(seen: Seen) -> str:
    """Return the Markdown between the page's markers."""
    columns = {name: it for name in NAMES if isinstance(it := seen.get(name), Figures)}
    lines = [
        f"| | {' | '.join(NAMES[name] for name in columns)} |",
        f"| --- |{' ---: |' * len(columns)}",
        *(f"| {head} | {' | '.join(cell(it) for it in columns.values())} |" for head, cell in rows().items()),
        "",
    ]
    lines += [
        f"{NAMES[name]} ({it.versions}) was not measured: {it.why}."
        for name in NAMES
        if isinstance(it := seen.get(name), Missing)
    ]
    if left := [NAMES[name] for name in NAMES if name not in seen]:
        lines.append(f"Not measured yet: {', '.join(left)}.")
    if columns:
        one = next(iter(columns.values()))
        lines += ["", f"{one.documents} documents, {one.chunks:,} chunks. {machine()}."]
    return "\n".join([*_turns_table(seen), *lines])


def _turns_table(seen: Seen) -> list[str]:
    """Return the lines of the first loads in turn."""
    turns = seen.get("turns")
    if not isinstance(turns, Turns):
        return []
    names = {**BARE, **NAMES}
    best = {name: turns.documents / min(it.seconds for it in rates) for name, rates in turns.rates.items()}
    rounds = {len(rates) for rates in turns.rates.values()}
    loads = [it.load for rates in turns.rates.values() for it in rates]
    lines = [
        "| first load | documents/s | per CPU second | × the bare loop | × its faster form |",
        "| --- |" + " ---: |" * 4,
    ]
    for name in (name for name in names if name in turns.rates):
        per_cpu = turns.documents / statistics.median(it.cpu_s for it in turns.rates[name])
        lines.append(
            f"| {names[name]} | {best[name]:.1f} | {per_cpu:.1f} | {best[name] / best['bare-engine']:.2f} "
            f"| {best[name] / best['bare-callers']:.2f} |"
        )
    turn = "turn" if rounds == {1} else "turns"
    sentence = (
        f"{turns.documents} documents; documents/s: the best of {' or '.join(map(str, sorted(rounds)))} {turn}, "
        f"CPU seconds: the median. The machine's load was {min(loads):.0f} to {max(loads):.0f}."
    )
    return [*lines, "", sentence, ""]


def machine() -> str:
    """Return the CPU, its cores and the Python that measured."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = next(line.partition(": ")[2] for line in cpuinfo.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{model.strip()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def written_lines(source: str) -> int:
    """Return the lines of a script that hold code, without docstrings, the weights' adapter and the check."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        docstring = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        ours = isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in _NOT_WRITTEN
        if isinstance(node, ast.stmt) and (docstring or ours):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            skipped |= set(range(first, (node.end_lineno or first) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in skipped
        for number, line in enumerate(source.splitlines(), 1)
    )


def _load(it: Outcome) -> str:
    wrong = [
        f"{count:,} {what}"
        for count, what in ((it.missing, "missing"), (it.stale, "stale"), (it.duplicates, "twice in the store"))
        if count
    ]
    return ", ".join([f"{it.seconds:.1f} s", f"{it.embedded:,} embedded", *wrong])
