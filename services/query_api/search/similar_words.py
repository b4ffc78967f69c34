"""Knows which English words mean nearly the same as a word, by the packaged model's own word vectors.

The table is fixed, as the words' weights are: a score must depend on query and passage alone
(docs/adr/0124-similar-words.md). `similar_words.msgpack` is written by `python -m tests.bench.similar_words`.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

FILE: Final = Path(__file__).with_name("similar_words.msgpack")
_MOST: Final = 255  # the byte that stands for a similarity of 1


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The file: words, and for each the stems of the most similar words, the nearest first."""

    model: str  # whose word vectors were compared
    weights_sha256: str  # of that model's file
    least: float  # cosine below which words aren't listed
    words: tuple[str, ...]
    stems: tuple[str, ...]  # that similar words have
    counts: bytes  # of each word's similar stems
    numbers: bytes  # of these stems, two bytes each, the lower one first
    cosines: bytes  # 255 stands for 1


class SimilarWords:
    """Looks up similar words in a table."""

    def __init__(self, table: Table) -> None:
        self._stems = table.stems
        self._at = {word: number for number, word in enumerate(table.words)}
        self._ends = np.cumsum(np.frombuffer(table.counts, np.uint8), dtype=np.int64)
        self._numbers = np.frombuffer(table.numbers, "<u2")
        self._cosines = np.frombuffer(table.cosines, np.uint8)

    def of(self, word: str) -> Sequence[tuple[str, float]]:
        """Return the stems of the words similar to this lower-case word, with cosines in 0..1, the nearest first.

        The word's own stem isn't among them. Words that the model's vocabulary has only in pieces have none.
        """
        at = self._at.get(word)
        if at is None:
            return ()
        part = slice(int(self._ends[at - 1]) if at else 0, int(self._ends[at]))
        pairs = zip(self._numbers[part].tolist(), self._cosines[part].tolist(), strict=True)
        return [(self._stems[number], cosine / _MOST) for number, cosine in pairs]


@functools.cache
def similar_words() -> SimilarWords:
    """Return the words of the packaged table: 10 ms at the first use."""
    return SimilarWords(msgspec.msgpack.decode(FILE.read_bytes(), type=Table))
