"""Fakes of `shared.embedder.TokenCounter`."""

from collections.abc import Sequence


class Characters:
    """One token per `each` characters, rounded up."""

    def __init__(self, max_tokens: int = 512, *, each: int = 4) -> None:
        self.max_tokens = max_tokens
        self._each = each

    def count(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text) // self._each) for text in texts]


class Words:
    """One token per word."""

    def __init__(self, max_tokens: int = 256) -> None:
        self.max_tokens = max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


class Bytes:
    """One token per three bytes, rounded up, as byte-level models count unusual text."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text.encode()) // 3) for text in texts]
