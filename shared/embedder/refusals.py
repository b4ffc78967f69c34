"""Whose fault it is when a model's server refuses a text: the text's, or the server's. Pure: callers bring the time.

docs/adr/0044-refused-texts.md.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from shared.embedder.estimate import beginning, estimated

TRIES: Final = 3
REST_S: Final = 3.0  # between two tries of one text, so that three are done within 15 s
KEPT_S: Final = 600.0
MOST_DOCUMENTS: Final = 2  # rejected within KEPT_S; from the next one on it is the server
PROBE: Final = "probe"  # every server has embedded it at the start


class Again(msgspec.Struct, frozen=True):
    """Ask for the text again, after so many seconds."""

    sentence: str
    after_s: float


class TextAtFault(msgspec.Struct, frozen=True):
    """The server will never take the text."""

    sentence: str
    times: int


class ServerAtFault(msgspec.Struct, frozen=True):
    """Too many documents are refused for this to be the fault of their texts."""

    sentence: str
    documents: int


Verdict = Again | TextAtFault | ServerAtFault


class _Refused(msgspec.Struct):
    sentence: str  # the server's
    document: int  # texts of one document have one number, and so have documents that share a text
    times: int = 0
    last: float = 0.0
    decided: float | None = None  # when it was the text's fault


class Refusals:
    """The texts that one server refused in the last ten minutes. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._texts: dict[str, _Refused] = {}
        self._documents = 0

    def refused(self, text: str, beside: Iterable[str], sentence: str, now: float) -> None:
        """Take in that the server refused the text alone, and took another as long. `beside` are its document's."""
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
        """Take in that the server took the text."""
        self._texts.pop(text, None)

    def verdict(self, text: str, now: float) -> Verdict | None:
        """Return what is to be done about a text that is not to be asked for now; None: ask."""
        self._forget(now)
        seen = self._texts.get(text)
        if seen is None:
            return None
        if seen.decided is not None:
            return TextAtFault(seen.sentence, seen.times)
        if (left := seen.last + REST_S - now) <= 0:
            return None
        if seen.times >= TRIES:
            return ServerAtFault(seen.sentence, len(self._rejected() | {seen.document}))
        return Again(seen.sentence, left)

    def _rejected(self) -> set[int]:
        return {each.document for each in self._texts.values() if each.decided is not None}

    def _forget(self, now: float) -> None:
        old = [text for text, seen in self._texts.items() if now - (seen.decided or seen.last) > KEPT_S]
        for text in old:
            del self._texts[text]


class Samples:
    """Texts that a server has embedded: the latest of each order of length."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def embedded(self, text: str) -> None:
        """Take in a text."""
        self._texts[estimated(text).bit_length()] = text

    def refused(self, text: str) -> None:
        """Drop a text that is no longer embedded."""
        self._texts = {size: sample for size, sample in self._texts.items() if sample != text}

    def like(self, text: str) -> str:
        """Return a sample that is as long as `text`, and not twice as long; else one made of the longest.

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
    """Return by what a text is remembered: 64 hex digits of it and the model."""
    return hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest()
