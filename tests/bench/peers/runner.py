"""Runs one step of a peer in the peer's own environment: `python -m tests.bench.peers.runner NAME STEP FOLDER DATA`.

Prints a line of JSON. A step's seconds leave out imports and the loading of the model.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def main() -> None:
    name, step, folder, data = sys.argv[1:]
    peer = importlib.import_module(f"tests.bench.peers.{name}")
    print(json.dumps(STEPS[step](peer, Path(folder), Path(data))))


def _load(peer: ModuleType, folder: Path, data: Path) -> dict[str, float]:
    begun, used = time.perf_counter(), time.process_time()
    peer.load(folder, data)
    return {"seconds": time.perf_counter() - begun, "cpu_s": time.process_time() - used}


def _search(peer: ModuleType, folder: Path, data: Path) -> dict[str, list[float]]:
    """Ask the lines of standard input; return how long each took, and how long its embedding alone."""
    from tests.bench.peers.minilm import MINILM

    search = peer.searching(data)
    queries = sys.stdin.read().splitlines()
    for query in queries[:5]:
        search(query)
        MINILM.query(query)
    return {
        "searches": [_timed(search, query) for query in queries],
        "queries": [_timed(MINILM.query, query) for query in queries],
    }


def _timed(function: Callable[[str], object], query: str) -> float:
    begun = time.perf_counter()
    function(query)
    return 1000 * (time.perf_counter() - begun)


def _stored(peer: ModuleType, folder: Path, data: Path) -> list[str]:
    stored: list[str] = peer.stored(data)
    return stored


STEPS = {"load": _load, "search": _search, "stored": _stored}

if __name__ == "__main__":
    main()
