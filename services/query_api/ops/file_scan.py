"""A program that searches a folder for words: folder and words on stdin, the matching files on stdout, as JSON.

It is a process of its own, because closing a file drops all POSIX locks of the process on it, including SQLite's.
A server that read its own log's files like this could lose later writes. Only Python's standard library is imported.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_BLOCK = 1 << 20


def search(folder: Path, words: Sequence[bytes]) -> tuple[int, list[tuple[str, int]]]:
    """Return the number of files read, and the name and number of words of each file that contains any."""
    count, found = 0, []
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_symlink() or not path.is_file():
                continue
            there = _words_in(path, words)
        except FileNotFoundError:  # its owner deleted it meanwhile
            continue
        count += 1
        if there:
            name = os.fsencode(path.relative_to(folder)).decode(errors="replace")  # a name may be invalid UTF-8
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
