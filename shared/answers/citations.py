"""Parses the citations `[n]` of an answer, removes those that name no passage, and makes its links inert.

An image that loads tells its server what its URL says.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing
from typing import Final, TypeVar

T = TypeVar("T")

# [1], [1, 2] and, as some models write, [Source 1]
_MARK: Final = re.compile(r"\[(?:source\s?)?(\d{1,4}(?:\s?,\s?\d{1,4}){0,5})\]", re.IGNORECASE)
_SPACED_MARK: Final = re.compile(r"(?<!\s)\s*+" + _MARK.pattern, re.IGNORECASE)
_PROCESS: Final = re.compile(r"(?<=\w)\[\d{3,4}\]")
# The end of a piece that may still become a mark: white space and an open bracket, no longer than the longest mark.
_UNDECIDED: Final = re.compile(r"(?<!\s)\s*(?:\[[^\[\]]{0,60})?\Z")
_SUBSCRIPTED: Final = re.compile(r"[\w)]")  # before a bracket: a[0], f(x)[1]


async def filtered(events: AsyncIterator[T], text: "KnownCitations | InertLinks") -> AsyncGenerator[T | str, None]:
    """Yield the events, with their text as `text` changes it."""
    async with aclosing(events):  # type: ignore[type-var]  # adapters are generators
        async for event in events:
            if shown := text.feed(event) if isinstance(event, str) else text.rest():
                yield shown
            if not isinstance(event, str):
                yield event


def marks(answer: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each mark's start and end, in characters, and its numbers."""
    for mark in _MARK.finditer(answer):
        yield mark.start(), mark.end(), _numbers(mark)


def unmarked(text: str) -> str:
    """Return `text` with round brackets for the square ones of footnotes that would be taken for citations.

    `sshd[812]` stays, because no answer quotes so many passages.
    """
    return _MARK.sub(lambda mark: mark[0] if _PROCESS.match(text, mark.start()) else f"({mark[0][1:-1]})", text)


class KnownCitations:
    """Removes citations of unknown numbers from a stream, even if one is split between two pieces.

    With 1 known: `[1, 9]` becomes `[1]`, ` [9]` is removed with its space, and `a[9]` stays, because it is code.
    """

    def __init__(self, known: Collection[int]) -> None:
        """Take the numbers that exist."""
        self._known = known
        self._held = ""
        self._before = ""  # the character before what is held

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far."""
        text = self._held + piece
        undecided = _UNDECIDED.search(text)
        return self._pass(text, undecided.start() if undecided else len(text))

    def rest(self) -> str:
        """Return the text that was held back; call it at the end of the stream."""
        return self._pass(self._held, len(self._held))

    def _pass(self, text: str, end: int) -> str:
        ready, self._held = text[:end], text[end:]
        shown = _SPACED_MARK.sub(lambda mark: self._shown(ready, mark), ready)
        self._before = ready[-1:] or self._before
        return shown

    def _shown(self, ready: str, mark: re.Match[str]) -> str:
        before = ready[mark.start() - 1] if mark.start() else self._before
        space = mark[0][: mark[0].index("[")]
        if not space and _SUBSCRIPTED.match(before):
            return mark[0]
        numbers = _numbers(mark)
        known = [number for number in numbers if number in self._known]
        if known == numbers:
            return mark[0]
        return f"{space}[{', '.join(map(str, known))}]" if known else ""


def _numbers(mark: re.Match[str]) -> list[int]:
    return [int(number) for number in mark[1].split(",")]


# Markdown takes `](` for a link or image, `]:` for a link's definition, and `<x` for a link or HTML; not with a blank.
_JOINT: Final = re.compile(r"(?<=\])(?=[(:\[])|(?<=<)(?=[A-Za-z/!?])")
_OPENINGS: Final = ("]", "<")


class InertLinks:
    """Puts a blank into each link, image and HTML tag of a stream, so that its address is text and nothing loads.

    `![a](https://x)` becomes `![a] (https://x)`. Code gets the blank, too.
    """

    def __init__(self) -> None:
        """Begin an answer."""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far."""
        text = _JOINT.sub(" ", self._held + piece)
        self._held = text[-1] if text.endswith(_OPENINGS) else ""
        return text[: len(text) - len(self._held)]

    def rest(self) -> str:
        """Return the text that was held back; call it at the end of the stream."""
        held, self._held = self._held, ""
        return held
