"""Tokens without the model's tokenizer: a server counts only what it embeds."""

import bisect
import re
from collections.abc import Sequence
from typing import Final

_LETTERS: Final = re.compile(r"[A-Za-z\s]+")
# Best first: behind a sentence or line, else between words.
_CUTS: Final = (re.compile(r"(?<=[.!?…।؟۔])\s+|\n+|(?<=[。！？｡])"), re.compile(r"\s+"))


class EstimatedTokens:
    """Counts without the model's tokenizer, and rather too many: a chunk that fits by this count fits.

    Two letters a token (English has four), one for a digit or sign, two for a Chinese character. The estimate never
    falls when a text grows.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the estimated number of tokens of each text."""
        return [estimated(text) for text in texts]


def estimated(text: str) -> int:
    """Return the estimated number of tokens."""
    others = _LETTERS.sub("", text)
    return (len(text) + len(others.encode(errors="replace")) + 1) // 2


def beginning(text: str, tokens: int) -> str:
    """Return the longest beginning of `text` that has at most that many tokens by the estimate."""
    longest = text[: 2 * tokens]
    return longest[: bisect.bisect_right(range(1, len(longest) + 1), tokens, key=lambda n: estimated(longest[:n]))]


def halves(text: str) -> tuple[str, str] | None:
    """Return the text in two: at the end of a sentence, else a word, else anywhere; the nearest to its middle.

    Neither is blank, and cut at a sentence or word each has a third or more. None where no such cut is left.
    """
    middle, least = len(text) / 2, max(1, len(text) // 3)
    for pattern in _CUTS:
        ends = [cut.end() for cut in pattern.finditer(text, least) if cut.end() <= len(text) - least]
        for end in sorted(ends, key=lambda end: abs(end - middle)):
            if (parts := (text[:end], text[end:]))[0].strip() and parts[1].strip():
                return parts
    parts = text[: len(text) // 2], text[len(text) // 2 :]
    return parts if parts[0].strip() and parts[1].strip() else None
