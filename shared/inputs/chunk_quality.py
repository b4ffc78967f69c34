"""A chunk's score of how informative it is by itself: 0.3 diversity + 0.4 density + 0.3 completeness. docs/chunks.md"""

import re
from typing import NamedTuple

_WORD = re.compile(r"\w+")
_BLANKED = str.maketrans({chr(code): " " for code in range(128) if not _WORD.match(chr(code))})  # is faster
_ENDS = re.compile(r"[.!?…。！？｡:;|`][\"'”’»)\]」』*_]*$")
_LETTERS = 4  # shorter words are seldom terms, in any language that has words
_UNSPACED = "\u2e7f"  # above it are scripts without blanks between words, where short words count
_ENOUGH = 20  # words; fewer count as a label
# English; in other languages only the length decides.
_COMMON = frozenset(
    """
    about after also another because been before being between both could each from further have here into itself
    just more most much only other over same should some such than that their them then there these they this those
    through under until very were what when where which while will with would your
    """.split()  # noqa: SIM905 - a list that can be read
)


class ChunkQuality(NamedTuple):
    """Three measures of a chunk, each 0..1."""

    diversity: float  # distinct words to words
    density: float  # terms to words; a term is no common word and has four letters or a digit
    completeness: float  # a third each: no sentence runs into it, none is cut at its end, it has enough words

    @property
    def score(self) -> float:
        """Return all in one, 0..1, three digits."""
        return round(0.3 * self.diversity + 0.4 * self.density + 0.3 * self.completeness, 3)


def semantic_score(text: str, kind: str) -> float:
    """Return the quality of a chunk in one number, 0..1, three digits."""
    return quality(text, kind).score


def quality(text: str, kind: str) -> ChunkQuality:
    """Return the measures of a chunk of the given type; all are 0 where it has no word."""
    words = _words(text.lower())
    if not words:
        return ChunkQuality(0.0, 0.0, 0.0)
    total = len(words)
    terms = [
        word
        for word in words
        if word not in _COMMON and (len(word) >= _LETTERS or not word.isalpha() or word[0] > _UNSPACED)
    ]
    structured = kind in ("code", "table", "list")
    begins = structured or not text[0].islower()
    ends = structured or _ENDS.search(text, max(0, len(text) - 8)) is not None
    return ChunkQuality(
        diversity=len(set(words)) / total,
        density=len(terms) / total,
        completeness=(begins + ends + (total >= _ENOUGH)) / 3,
    )


def _words(text: str) -> list[str]:
    return text.translate(_BLANKED).split() if text.isascii() else _WORD.findall(text)
