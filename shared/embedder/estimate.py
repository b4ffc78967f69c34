"""Estimates token counts without the model's tokenizer, for models on servers."""

import bisect
import re
from collections.abc import Sequence
from typing import Final

_LETTERS: Final = re.compile(r"[A-Za-z\s]+")
# Best first: after a sentence or line, else between words.
_CUTS: Final = (re.compile(r"(?<=[.!?…।؟۔])\s+|\n+|(?<=[。！？｡])"), re.compile(r"\s+"))


class EstimatedTokens:
    """Estimates the number of tokens, rather too high than too low, so that chunks fit the model.

    Counts one token per two letters (English has four per token), one per digit or punctuation mark, and two per
    Chinese character. The estimate never falls when a text grows.
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
    """Return the text split in two, near its middle: after a sentence, else between words, else anywhere.

    Neither half is blank. Split after a sentence or word, each has at least a third of the text. None if the text
    can't be split.
    """
    middle, least = len(text) / 2, max(1, len(text) // 3)
    for pattern in _CUTS:
        ends = [cut.end() for cut in pattern.finditer(text, least) if cut.end() <= len(text) - least]
        for end in sorted(ends, key=lambda end: abs(end - middle)):
            if (parts := (text[:end], text[end:]))[0].strip() and parts[1].strip():
                return parts
    parts = text[: len(text) // 2], text[len(text) // 2 :]
    return parts if parts[0].strip() and parts[1].strip() else None
