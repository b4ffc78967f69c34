"""Sentences and content words of Markdown or plain text, in any script."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from shared.answers.citations import unmarked


class Sentence(msgspec.Struct, frozen=True):
    """Something that can be quoted on its own: a sentence, a table's row, a line of code."""

    text: str  # without Markdown's marks, on one line
    about: str  # the heading and question under which it stands


_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_HEADING: Final = re.compile(r"#{1,6}\s+(.*?)[\s#]*$")
_RULE: Final = re.compile(r"(?:=+|-+|(?:[-*_]\s*){3,})$")
_ROW: Final = re.compile(r"\|(.*?)\|?$")
_ITEM: Final = re.compile(r"\A(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")

_INLINE: Final = (
    (re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\])"), r"\1"),  # image, link
    (re.compile(r"<(https?://[^<>\s]+)>"), r"\1"),
    (re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])([*_])(?=\S)([^*_]+?)(?<=\S)\1(?![\w*])"), r"\2"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
    (re.compile(r"\s+"), " "),
)
# Full stops with white space behind them, quotes and brackets closed before it; CJK needs no space.
_END: Final = re.compile(
    r"(?<=[.!?…।؟۔])\s+|(?<=[.!?…][\"'”’»)\]])\s+|(?<=[。！？｡])(?![」』）”])|(?<=[。！？][」』）”])"
)
_UNFINISHED: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|incl|no|nr|fig|eq|sec|ch|pp?|vol|mr|mrs|ms|dr|prof|st|z\.\s?B|d\.\s?h|bzw|ca|[A-Z]))\.$",
    re.IGNORECASE,
)

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Scripts without spaces, and Korean, whose particles hang on the words: pairs of characters stand for words.
_PAIRED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_ACCENT: Final = re.compile(r"[\u0300-\u036f]")
_ENDINGS: Final = tuple(
    (re.compile(ending), instead)
    for ending, instead in (
        (r"['’]s?$", ""),
        (r"(?<=\w\w)ies$", "y"),
        (r"(?<=\w[sxz])es$|(?<=\w[cs]h)es$|(?<=\w\w)(?<![sui])s$", ""),
        (r"(?<=\w\w\w)(?:ing|ed|ly)$", ""),
        (r"(?<=\w\w)([^aeiouls])\1$", r"\1"),  # running, runn, run
        (r"(?<=\w\w\w)e$", ""),
    )
)
# English alone: in other languages the weight of a word by its rarity does most of this list's work.
_STOP: Final = """
a about above after again all also am an and any are as at be because been before being below between both but by
can cannot could did do does doing down during each few for from further get had has have having he her here hers
him his how i if in into is it its itself just let like many may me might more most much must my no nor not of off
on once one only or other our ours out over own please same shall she should so some such tell than that the their
them then there these they this those through to too under until up us use very want was we were what when where
which while who whom whose why will with would you your
"""


def sentences(text: str) -> list[Sentence]:
    """Return what can be quoted, in reading order; headings, questions and openings ("Run:") say what it is about."""
    found: list[Sentence] = []
    heading = about = ""
    for kind, block in _blocks(text):
        if kind == "heading":
            heading = about = _plain(block)
            continue
        for part in _quotable(kind, block):
            if part.endswith(("?", "？", ":", "：")):
                about = f"{heading} {part}".strip()
            elif _WORD.search(part):
                found.append(Sentence(part, about))
    return found


def words(text: str) -> list[str]:
    """Return the words of `text` as they are compared: folded, without accents and endings, in reading order."""
    folded = _ACCENT.sub("", unicodedata.normalize("NFKD", text)).casefold()
    composed = unicodedata.normalize("NFC", folded)  # Korean was taken apart
    return [word for match in _WORD.finditer(composed) for word in _parts(match[0])]


def content_words(text: str) -> list[str]:
    """Return `words` without those that say little."""
    return [word for word in words(text) if word not in _STOPPED]


def names(question: str) -> set[str]:
    """Return the words that are written like names, with a capital within the sentence; in German, every noun."""
    _, *later = [match[0] for match in _WORD.finditer(question)] or [""]
    return {word for name in later if name[0].isupper() for word in words(name)}


def _blocks(text: str) -> Iterator[tuple[str, str]]:  # noqa: C901 - a branch for each kind of line
    """Yield (heading | prose | row | code, its text), prose with its lines joined."""
    prose: list[str] = []
    header: list[str] = []
    row: list[str] = []  # may turn out to be a header
    fenced = False

    def flushed() -> Iterator[tuple[str, str]]:
        nonlocal row
        if prose:
            yield "prose", " ".join(prose)
            prose.clear()
        if row:
            yield "row", _row(header, row)
            row = []

    for line in (raw.strip() for raw in text.splitlines()):
        if _FENCE.match(line):
            yield from flushed()
            fenced = not fenced
        elif fenced:
            yield "code", line
        elif row and "-" in line and not line.strip("|:- \t"):
            header, row = row, []
        elif cells := _ROW.match(line):
            yield from flushed()
            row = [cell.strip() for cell in cells[1].split("|")]
        elif heading := _HEADING.match(line):
            yield from flushed()
            header = []
            yield "heading", heading[1]
        elif _RULE.match(line):
            if len(prose) == 1:  # underlined: a heading
                yield "heading", prose.pop()
            yield from flushed()
        else:
            content = line.lstrip("> ")
            if not content or _ITEM.match(content):
                yield from flushed()
                header = []
            if content:
                prose.append(_ITEM.sub("", content, count=1))
    yield from flushed()


def _quotable(kind: str, block: str) -> Iterable[str]:
    if kind == "code":
        return [unmarked(block)]
    return _split(_plain(block)) if kind == "prose" else [_plain(block)]


def _row(header: list[str], cells: list[str]) -> str:
    if len(header) != len(cells):
        return "; ".join(filter(None, cells))
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(header, cells, strict=True) if cell)


def _plain(text: str) -> str:
    for pattern, kept in _INLINE:
        text = pattern.sub(kept, text)
    return unmarked(text).strip()


def _split(text: str) -> Iterator[str]:
    begun = ""
    for part in _END.split(text):
        begun = f"{begun} {part}" if begun else part
        # A small letter goes on, whatever stop came before it.
        if not _UNFINISHED.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


def _parts(word: str) -> Iterator[str]:
    start = 0
    for run in _PAIRED.finditer(word):
        if before := word[start : run.start()]:
            yield _stem(before)
        pairs = [run[0][at : at + 2] for at in range(len(run[0]) - 1)]
        yield from pairs or [run[0]]
        start = run.end()
    if rest := word[start:]:
        yield _stem(rest)


def _stem(word: str) -> str:
    """Return the word without its commonest English endings; enough to match, not to print."""
    for ending, instead in _ENDINGS:
        word = ending.sub(instead, word)
    return word


_STOPPED: Final = frozenset(map(_stem, _STOP.split()))
