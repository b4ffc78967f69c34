"""Decides whether the text or the server is at fault when a server refuses a text. Pure: callers pass the time.

docs/adr/0005-retries-dead-letters-replay.md.
"""

import bisect
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from shared.errors import PipelineError, Rejected, RetryLater, Unavailable

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


TRIES: Final = 3
REST_S: Final = 3.0  # between two tries of one text; three fit into 15 s
KEPT_S: Final = 600.0  # how long a refusal is remembered
MOST_DOCUMENTS: Final = 2  # rejected within KEPT_S; with more, the server is at fault
PROBE: Final = "probe"  # a text that every server has embedded at the start


class _Refused(msgspec.Struct):
    sentence: str  # the server's
    document: int  # equal for the texts of one document, and for documents that share a refused text
    times: int = 0
    last: float = 0.0
    decided: float | None = None  # when the text was found at fault


class Refusals:
    """The texts that one server refused in the last ten minutes. Times are seconds of one clock, any clock."""

    def __init__(self) -> None:
        self._texts: dict[str, _Refused] = {}
        self._documents = 0

    def refused(self, text: str, beside: Iterable[str], sentence: str, now: float) -> None:
        """Record that the server refused `text` sent alone, but embeds others as long.

        `beside` are the names of all texts of the same document.
        """
        self._forget(now)
        seen = self._texts.get(text)
        if seen is None:
            document = next((self._texts[other].document for other in beside if other in self._texts), None)
            if document is None:
                document = self._documents = self._documents + 1
            seen = self._texts[text] = _Refused(sentence, document)
        seen.sentence, seen.last = sentence, now
        seen.times += 1
        if seen.times >= TRIES and len(self._rejected() | {seen.document}) <= MOST_DOCUMENTS:
            seen.decided = now

    def embedded(self, text: str) -> None:
        """Record that the server embedded the text."""
        self._texts.pop(text, None)

    def error(self, text: str, characters: int, now: float) -> PipelineError | None:
        """Return the error for a text of so many characters that must not be sent now, or None if it may be sent.

        Rejected: the server will never embed it. Unavailable: it refuses the texts of so many documents that they can't
        be the cause.
        """
        self._forget(now)
        seen = self._texts.get(text)
        if seen is None:
            return None
        minutes = f"{KEPT_S / 60:g} minutes"
        if seen.decided is not None:
            times = f"{seen.times} times for a text of {characters} characters alone, while it embeds others as long"
            return Rejected(f"{seen.sentence}, {times}; this text is not sent again for {minutes}", "model_refuses")
        if (left := seen.last + REST_S - now) <= 0:
            return None
        if seen.times >= TRIES:
            documents = len(self._rejected() | {seen.document})
            return Unavailable(f"{seen.sentence}; it refused texts of {documents} documents within {minutes}")
        refused = f"{seen.sentence}, for one text of {characters} characters; it embeds other texts, so it is retried"
        return RetryLater(refused, "model_refuses", after_s=left)

    def _rejected(self) -> set[int]:
        return {each.document for each in self._texts.values() if each.decided is not None}

    def _forget(self, now: float) -> None:
        old = [text for text, seen in self._texts.items() if now - (seen.decided or seen.last) > KEPT_S]
        for text in old:
            del self._texts[text]


class Samples:
    """Texts that a server has embedded: the latest of each order of magnitude (powers of two) in length."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def embedded(self, text: str) -> None:
        """Remember a text that was embedded."""
        self._texts[estimated(text).bit_length()] = text

    def refused(self, text: str) -> None:
        """Drop a text that is no longer embedded."""
        self._texts = {size: sample for size, sample in self._texts.items() if sample != text}

    def like(self, text: str) -> str:
        """Return a sample that is one to two times as long as `text`; if there is none, repeat the longest to fit.

        Lengths are estimated tokens.
        """
        wanted = estimated(text)
        samples = sorted((PROBE, *self._texts.values()), key=estimated)
        for sample in samples:
            if wanted <= estimated(sample) <= 2 * wanted:
                return sample
        longest = f"{samples[-1]} "
        return beginning(longest * (1 + 2 * wanted // len(longest)), wanted)


def name_of(text: str, digest: str) -> str:
    """Return the key under which a text is remembered: a hash of the model's digest and the text, 64 hex digits."""
    return hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest()
