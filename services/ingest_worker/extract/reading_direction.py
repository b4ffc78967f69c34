"""Puts the lines of a PDF's page that have letters of Arabic or Hebrew in the order in which they are read.

The inverse of rule L2 of the Unicode Bidirectional Algorithm (UAX #9), with its levels guessed from what is seen.
"""

import ctypes
import math
import re
import unicodedata
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import chain, groupby, pairwise
from statistics import median_low
from types import MappingProxyType
from typing import Final, NamedTuple

from services.ingest_worker.extract.page_layout import RIGHT, Word
from services.ingest_worker.extract.pdfium_access import OpenPage, pdfium, quick

_DIGITS: Final = frozenset({"EN", "AN"})
_OPENING, _CLOSING = "([{«", ")]}»"
_BRACKETS: Final = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)
_OPENS: Final = re.compile(r"(?<!\S)[()\[\]{}«»](?=\w)")
_CLOSES: Final = re.compile(r"(?<=\w)[()\[\]{}«»](?![^\s.,:;!?،؛؟])")
_CELLS: Final = 0.62  # times the size of the letters: words of a cell are nearer, also a typewriter's (0.6)
_EVEN: Final = 0.1  # times it: blanks that are alike, as those of a justified line
_ASCENT: Final = 0.8  # of the size, above the line
LINE: Final = re.compile(r"\S(?:[^\r\n]*\S)?")
_WORD: Final = re.compile(r"\S+")
RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ENDS: Final = re.compile(rf"([.:;!?؛؟])(?={RIGHT_TO_LEFT.pattern})(.*\w)")


def as_read(page: OpenPage, text: str, inserted: Mapping[int, str]) -> str:
    """Return the text with what is to be inserted, and lines with right-to-left letters in the order of reading."""
    if text.isascii() or not RIGHT_TO_LEFT.search(text):
        return with_inserted(text, 0, len(text), inserted)
    parts: list[str] = []
    done, from_left = 0, is_from_left(text)
    for line in LINE.finditer(text):
        read = line_as_read(page, line, from_left=from_left, inserted=inserted)
        parts += [with_inserted(text, done, line.start(), inserted), read]
        done = line.end()
    return "".join([*parts, with_inserted(text, done, len(text), inserted)])


def is_from_left(text: str) -> bool:
    """Return whether most letters of the text are read from left to right."""
    return (
        text.isascii()
        or not RIGHT_TO_LEFT.search(text)
        or 2 * len(RIGHT_TO_LEFT.findall(text)) < sum(map(str.isalpha, text))
    )


def line_as_read(
    page: OpenPage, line: re.Match[str], *, from_left: bool, inserted: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Return the line as it is read; `from_left` is the direction of its page, for a line that may have either.

    Pdfium turns the words of a line in two directions round, and the letters of a glyph that stands for several.
    """
    text, (start, end) = line.string, line.span()
    placed = RIGHT_TO_LEFT.search(line[0]) and len(text) == pdfium.FPDFText_CountChars(page.textpage)
    if placed and (seen := _seen(page, text, start, end, inserted)):
        return with_brackets("".join(seen[at] for at in reading_order(seen, from_left=from_left)))
    return with_inserted(text, start, end, inserted)


class _Glyph(NamedTuple):
    """Its letters with the marks on them, and where it stands."""

    left: float
    right: float
    shown: str
    more: str = ""  # to be inserted behind it


def words_as_read(
    page: OpenPage, line: re.Match[str], *, from_left: bool, inserted: Mapping[int, str]
) -> Iterator[Word]:
    """Yield the words of a line in the order of reading, those of each cell beside each other in its box.

    `from_left` is the direction of the page. Nothing is yielded for a line that doesn't run across the page.
    """
    glyphs, height = _glyphs(page, line.string, *line.span(), inserted)
    size, base = _size_and_base(page, line.start())
    top, bottom = -base - _ASCENT * size, -base + (1 - _ASCENT) * size
    spaced = _spaced(glyphs, height, sum(map(str.isspace, line[0])))
    gaps = [glyphs[at].left - glyphs[at - 1].right for at in spaced]
    kinds = set(map(unicodedata.bidirectional, line[0]))
    other = "L" not in kinds if from_left else "L" in kinds and kinds.isdisjoint(RIGHT)
    # A sentence in the other direction may be justified.
    whole = other and len(gaps) > 1 and max(gaps) - min(gaps) < _EVEN * size
    cuts = [at for at, gap in zip(spaced, gaps, strict=True) if gap > _CELLS * size and not whole]
    cells = [0, *cuts, len(glyphs)]
    for start, end in pairwise(cells) if glyphs else ():
        run = glyphs[start:end]
        seen = _with_blanks(run, [at - start for at in spaced if at > start])
        read = with_brackets("".join(seen[at] for at in reading_order(seen, from_left=from_left)))
        first, last = (run[0].left, run[-1].right) if from_left else (run[-1].right, run[0].left)
        step = (last - first) / len(read)
        for word in _WORD.finditer(read):
            left, right = sorted((first + step * word.start(), first + step * word.end()))
            yield Word(word[0], left, top, right, bottom, line.start())


def _size_and_base(page: OpenPage, at: int) -> tuple[float, float]:
    """Return the size of a letter's font and where its line is: boxes of Arabic letters differ in height, as drawn."""
    matrix, x, y = pdfium.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetMatrix(page.textpage, at, ctypes.byref(matrix))
    pdfium.FPDFText_GetCharOrigin(page.textpage, at, ctypes.byref(x), ctypes.byref(y))
    return pdfium.FPDFText_GetFontSize(page.textpage, at) * math.hypot(matrix.c, matrix.d), y.value


def _seen(page: OpenPage, text: str, start: int, end: int, inserted: Mapping[int, str]) -> list[str]:
    """Return the letters of a line as they stand from left to right; none if it doesn't run across the page."""
    glyphs, height = _glyphs(page, text, start, end, inserted)
    return _with_blanks(glyphs, _spaced(glyphs, height, sum(map(str.isspace, text[start:end]))))


def _glyphs(page: OpenPage, text: str, start: int, end: int, inserted: Mapping[int, str]) -> tuple[list[_Glyph], float]:
    """Return a line's glyphs from left to right, and their height; none if it doesn't run across the page."""
    box, give = pdfium.FS_RECTF(), quick("FPDFText_GetLooseCharBox")
    glyphs: list[_Glyph] = []
    marks: list[_Glyph] = []
    heights: list[float] = []
    lines: list[float] = []  # twice the heights at which the letters have their middles
    for at in range(start, end):
        if text[at].isspace():
            continue
        give(page.textpage, at, ctypes.byref(box))
        glyph = _Glyph(box.left, box.right, text[at], inserted.get(at + 1, ""))
        if unicodedata.combining(text[at]):
            marks.append(glyph)
        elif glyphs and glyphs[-1][:2] == glyph[:2]:
            glyphs[-1] = glyph._replace(shown=glyphs[-1].shown + glyph.shown, more=glyphs[-1].more + glyph.more)
        else:
            glyphs.append(glyph)
        heights.append(box.top - box.bottom)
        lines.append(box.top + box.bottom)
    # Boxes of another font's letters may be much higher around the same line.
    if not glyphs or max(lines) - min(lines) > 2 * (height := median_low(heights)):
        return [], 0.0
    glyphs.sort(key=_middle)
    middles = [_middle(glyph) for glyph in glyphs]
    for mark in marks:
        at = bisect(middles, _middle(mark))
        near = [each for each in (at - 1, at) if 0 <= each < len(glyphs)]
        nearest = min(near, key=lambda each: abs(middles[each] - _middle(mark)))
        below = glyphs[nearest]
        glyphs[nearest] = below._replace(shown=below.shown + mark.shown, more=below.more + mark.more)
    return glyphs, height


def _spaced(glyphs: Sequence[_Glyph], height: float, blanks: int) -> list[int]:
    """Return before which glyphs there is a blank; the line has so many at most."""
    gaps = sorted((after.left - before.right, at) for at, (before, after) in enumerate(pairwise(glyphs), 1))
    widest = gaps[max(0, len(gaps) - blanks) :]
    usual = min(widest[len(widest) // 2][0], height / 4) if widest else 0.0
    return sorted(at for gap, at in widest if gap > max(0.0, 0.4 * usual))  # pdfium also puts blanks around marks


def _with_blanks(glyphs: Sequence[_Glyph], spaced: Sequence[int]) -> list[str]:
    shown = [_unfolded(each.shown) + each.more for each in glyphs]
    return [part for at, each in enumerate(shown) for part in ([" ", each] if at in spaced else [each])]


def _middle(glyph: _Glyph) -> float:
    return (glyph.left + glyph.right) / 2


def _unfolded(shown: str) -> str:
    """Return what a glyph shows: pdfium turns letters of right-to-left scripts round, unless Unicode has the glyph."""
    turned = len(shown) > 1 and RIGHT_TO_LEFT.match(shown) and not unicodedata.combining(shown[-1])
    return shown[::-1] if turned and shown not in _joined_letters() else shown


@cache
def _joined_letters() -> frozenset[str]:
    """Return the letters of each Arabic ligature of Unicode."""
    forms = chain(range(0xFBEA, 0xFDC8), range(0xFEF5, 0xFEFD))
    return frozenset(unicodedata.normalize("NFKC", chr(form)) for form in forms)


def with_inserted(text: str, start: int, end: int, found: Mapping[int, str]) -> str:
    """Return a piece of the text with what was found at offsets in it."""
    parts: list[str] = []
    for at in sorted(each for each in found if start < each <= end):
        parts += [text[start:at], found[at]]
        start = at
    return "".join([*parts, text[start:end]])


def reading_order(letters: Sequence[str], *, from_left: bool) -> list[int]:
    """Return the places of the letters, which stand from left to right, as they are read.

    `from_left` is the direction of what is around the line; it decides where the line may have either.
    """
    levels = _levels([unicodedata.bidirectional(letter[:1] or " ") for letter in letters], from_left)
    order = list(range(len(letters)))
    for least in (1, 2):
        found: list[int] = []
        for inner, run in groupby(order, key=lambda at: levels[at] >= least):
            places = list(run)
            found += places[::-1] if inner else places
        order = found
    return order


def with_brackets(line: str) -> str:
    """Return the line; a bracket behind a blank and before a word opens, one behind a word and before a blank closes.

    In text that is read from the right some programs store brackets as they are drawn, others as they are read.
    In one that was set as if it were read from the left, what ends it stands before it.
    """
    if ends := _ENDS.fullmatch(line):
        line = ends[2] + ends[1]
    return _OPENS.sub(
        lambda each: _turned(each[0], _OPENING), _CLOSES.sub(lambda each: _turned(each[0], _CLOSING), line)
    )


def _turned(bracket: str, wanted: str) -> str:
    return bracket if bracket in wanted else bracket.translate(_BRACKETS)


def _levels(kinds: list[str], from_left: bool) -> list[int]:
    """Return for each letter how often it is embedded: in a line that is read from the right, Latin words twice."""
    strong = [kind for kind in kinds if kind == "L" or kind in RIGHT]
    ends = {kind == "L" for kind in (*strong[:1], *strong[-1:])}
    if ends == {True}:
        from_left = from_left or 2 * strong.count("L") > len(strong)
    elif ends == {False}:
        from_left = False
    numbers = _between(_with_units(kinds), _DIGITS, {"CS"} if "AL" in kinds else {"CS", "ES"}, most=1)
    if from_left:
        rights = _between(kinds, RIGHT, set(kinds) - {"L"})
        return [(2 if number else 1) if right else 0 for right, number in zip(rights, numbers, strict=True)]
    lefts = _between(_with_latin_numbers(kinds), {"L"}, set(kinds) - RIGHT)
    return [2 if left or number else 1 for left, number in zip(lefts, numbers, strict=True)]


def _with_units(kinds: Sequence[str]) -> list[str]:
    """Return the kinds, with that of digits for a percent sign or a currency beside them (W5), not in Arabic (W2)."""
    found = list(kinds)
    for order in (range(1, len(found)), range(len(found) - 2, -1, -1)) if "AL" not in kinds else ():
        for at in order:
            if found[at] == "ET" and found[at - order.step] == "EN":
                found[at] = "EN"
    return found


def _with_latin_numbers(kinds: Sequence[str]) -> list[str]:
    """Return the kinds, with that of Latin letters for digits behind such (W7)."""
    found, last = list(kinds), ""
    for at, kind in enumerate(kinds):
        last = kind if kind == "L" or kind in RIGHT else last
        found[at] = "L" if kind == "EN" and last == "L" else kind
    return found


def _between(kinds: Sequence[str], own: AbstractSet[str], joining: AbstractSet[str], most: int = 0) -> list[bool]:
    """Return which letters are of these kinds, or between such with only joining ones beside; at most so many."""
    found = [kind in own for kind in kinds]
    last = -1
    for at, kind in enumerate(kinds):
        if kind in own:
            if last >= 0 and (not most or at - last <= most + 1):
                found[last:at] = [True] * (at - last)
            last = at
        elif kind not in joining and kind != "NSM":
            last = -1
    return found
