"""Measures how well a border separates topics, by the words before and after it."""

import re

from shared.inputs.chunk_sizes import LARGEST

_SIGHT = 400  # characters before and after a border whose words are compared
_LEAST = 4  # letters; shorter words are ignored
_STEM = 6  # letters
_PIECE = 16_384  # characters prepared at a time
_OTHER = re.compile(r"[\W\d_]")
_ASCII = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_FEW = 100  # up to so many different characters are replaced faster one by one


class Words:
    """The words of a text around any offset; it is fast for offsets in reading order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._begin = self._end = 0  # of the prepared piece
        self._letters: str | None = None  # the piece with all but letters blanked; None if that changed its length
        self._found: dict[int, float] = {}  # in the piece

    def cohesion(self, at: int) -> float:
        """Return how similar the words before and after are, 0..1: their cosine squared (Hearst, TextTiling, 1997)."""
        start, end = max(0, at - _SIGHT), min(len(self._text), at + _SIGHT)
        if not self._begin <= start <= end <= self._end:
            self._begin = max(0, start - LARGEST)  # callers ask for the borders near a chunk's end in any order
            self._end = min(len(self._text), start + _PIECE)
            piece = self._text[self._begin : self._end]
            # The lower-case forms of these depend on the context, or are longer.
            self._letters = None if "Σ" in piece or "İ" in piece else _letters(piece)
            self._found.clear()
        if at not in self._found:
            before, behind = self._stems(start, at), self._stems(at, end)
            shared = len(before & behind)
            self._found[at] = shared * shared / (len(before) * len(behind)) if shared else 0.0
        return self._found[at]

    def _stems(self, start: int, end: int) -> set[str]:
        if self._letters is None:
            letters = _letters(self._text[start:end])
        else:
            letters = self._letters[start - self._begin : end - self._begin]
        return {word[:_STEM] for word in letters.split() if len(word) >= _LEAST}


def _letters(text: str) -> str:
    """Return the text in lower case, with blanks for everything but letters."""
    letters = text.lower()
    if letters.isascii():
        return letters.translate(_ASCII)
    others = [character for character in set(letters) if _OTHER.match(character)]
    if len(others) > _FEW:
        return _OTHER.sub(" ", letters)
    for other in others:
        letters = letters.replace(other, " ")
    return letters
