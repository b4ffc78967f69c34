"""A program: from stdin a folder and words, to stdout how many files were read and in which ones words are. JSON.

A process of its own, because closing a file drops every lock that the process holds on it (POSIX), SQLite's too: a
server that reads its own log's files this way may lose what it writes next. Nothing is imported that isn't Python's.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_BLOCK = 1 << 20


def search(folder: Path, words: Sequence[bytes]) -> tuple[int, list[tuple[str, int]]]:
    """Return how many files were read, and for each that has some of the words its name and how many."""
    count, found = 0, []
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_symlink() or not path.is_file():
                continue
            there = _words_in(path, words)
        except FileNotFoundError:  # its owner is at work
            continue
        count += 1
        if there:
            name = os.fsencode(path.relative_to(folder)).decode(errors="replace")  # JSON can't hold every name
            found.append((name, there))
    return count, found


def _words_in(path: Path, words: Sequence[bytes]) -> int:
    there: set[bytes] = set()
    overlap = max(map(len, words), default=1) - 1
    tail = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            block = tail + block
            there.update(word for word in words if word in block)
            tail = block[-overlap:] if overlap else b""
    return len(there)


if __name__ == "__main__":
    order = json.load(sys.stdin)
    json.dump(search(Path(order["folder"]), [word.encode() for word in order["words"]]), sys.stdout)
