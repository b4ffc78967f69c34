"""No store, no index: a loop over the paragraphs. What the model alone takes."""

from collections.abc import Callable
from pathlib import Path

from tests.bench.peers.minilm import MINILM


def load(folder: Path, data: Path) -> None:
    for path in sorted(folder.glob("*.md")):
        MINILM.embed(path.read_text(encoding="utf-8").strip().split("\n\n"))


def searching(data: Path) -> Callable[[str], list[str]]:
    return lambda _: []


def stored(data: Path) -> list[str]:
    return []
