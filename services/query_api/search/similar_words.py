"""Looks up English words of nearly the same meaning, in a table made from the packaged model's word vectors.

The table is part of the release, so that a score depends on query and passage alone (docs/adr/0020-scores.md).
`python -m tests.bench.similar_words` writes `similar_words.msgpack`.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

FILE: Final = Path(__file__).with_name("similar_words.msgpack")
_MOST: Final = 255  # the byte that stands for a similarity of 1


class SimilarWordTable(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file: words, each with the stems of its most similar words, the most similar first."""

    model: str  # name of the model whose word vectors were compared
    weights_sha256: str  # hash of that model's file
    least: float  # the lowest cosine that is listed
    words: tuple[str, ...]
    stems: tuple[str, ...]  # all stems that occur below
    counts: bytes  # by word: how many stems it has, one byte each
    numbers: bytes  # the stems of all words as indexes into `stems`, 16 bits each, little endian
    cosines: bytes  # of the same stems, one byte each; 255 stands for 1


class SimilarWords:
    """The table, ready for look-ups."""

    def __init__(self, table: SimilarWordTable) -> None:
        self._stems = table.stems
        self._at = {word: number for number, word in enumerate(table.words)}
        self._ends = np.cumsum(np.frombuffer(table.counts, np.uint8), dtype=np.int64)
        self._numbers = np.frombuffer(table.numbers, "<u2")
        self._cosines = np.frombuffer(table.cosines, np.uint8)

    def of(self, word: str) -> Sequence[tuple[str, float]]:
        """Return the stems of the words similar to this lower-case word, with cosines in 0..1, the most similar first.

        The word's own stem isn't among them. A word that the model's vocabulary has only in pieces has none.
        """
        at = self._at.get(word)
        if at is None:
            return ()
        part = slice(int(self._ends[at - 1]) if at else 0, int(self._ends[at]))
        pairs = zip(self._numbers[part].tolist(), self._cosines[part].tolist(), strict=True)
        return [(self._stems[number], cosine / _MOST) for number, cosine in pairs]


@functools.cache
def similar_words() -> SimilarWords:
    """Return the packaged table. The first call takes 10 ms."""
    return SimilarWords(msgspec.msgpack.decode(FILE.read_bytes(), type=SimilarWordTable))
