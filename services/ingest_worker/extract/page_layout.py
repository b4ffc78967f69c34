"""Puts a page's words in reading order and finds its tables, from their positions and the lines drawn. Pure.

Positions are in points, from the page's upper left corner. A table is found by the lines around its cells, else by
words that stand below each other with empty space between them.
"""

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, product, takewhile
from statistics import median_low
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from services.ingest_worker.extract.clean import one_line, unwrapped
from services.ingest_worker.extract.rows import REPEATED, named_rows, row_label
from services.ingest_worker.extract.table_header import (
    Covered,
    begins_with_data,
    find_header,
    is_figure,
    is_form_of_pairs,
    is_value,
    own,
)

TABLE: Final = "\1"  # a control character, which cleaning removes
INITIAL: Final = 1.8  # times the height of the letters beside it: two lines
_NEAR: Final = 3.0  # points between lines that are meant to be one
_NUMBERED: Final = re.compile(r"[A-Z0-9]{1,2}(?:\.\d{1,2}){0,4}\.?")  # as titles are
_MEASURE: Final = re.compile(r"[-–+(]?\d[\d.,]* ?[^\W\d_]{1,3}\)?")  # 4.5 m
_NAMED_VALUE: Final = re.compile(r"\w: \S")
_SENTENCE_END: Final = re.compile(r"[.!?…。！？]\Z")
_IDEOGRAPH: Final = re.compile("[\u2e80-\u9fff\uac00-\ud7af]")  # says as much as three letters
_MOST_FRAMES: Final = 100  # of a page: each is read within the one before
_MOST_EDGES: Final = 600  # of a page; more are a drawing
_MOST_CELLS: Final = 20_000
_MOST_PIECES: Final = 3_000  # of a page; more are a drawing made of letters
_BULLETS: Final = ("•", "●", "▪", "◦", "–", "-")
_APART: Final = 3.0  # lines between the paragraphs of a column
_WRAPPED: Final = 0.45  # lines between those of one cell, at most
_SAME: Final = 12.0  # points between the columns of a table on two pages
_MARGIN: Final = 40.0  # points between the margins of two pages
_SCRIPT: Final = 0.8  # times the height of other letters
_LEADER: Final = re.compile(r"\.(?: ?\.){4}|\. \. \.")
_EVEN: Final = (0.1, 0.25)  # times the height: gaps of a justified line; Arabic letters reach out of their boxes
RIGHT: Final = frozenset({"R", "AL"})  # kinds of letters that are read from the right
_MOST_COLUMNS: Final = 40  # of a table without lines
_HEADER_ROWS: Final = 4
_TORN: Final = 0.15  # share of such words: 0.24 to 0.75 in 40 places of a scanned paper, up to 0.06 in 79 tables
_MOST_BESIDE: Final = 10  # lines of addresses
_MOST_BLOCKS: Final = 5  # labels of one and their values count for two
_LEAST_ROWS: Final = 3  # of a table that has lines between rows only, or that another one follows
_HEADLINE: Final = 3  # lines
_TITLE: Final = 1.15  # times the size of the lines above it
_LARGE: Final = 1.25  # times the size of most lines
_CURRENCIES: Final = frozenset("$€£¥")
_AFTER: Final = frozenset("%)*")  # may stand behind a figure, with space between


class Word(NamedTuple):
    """A word and its box. `at` is the offset of its first character in the page's text."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    at: int = 0  # -1 for what is no part of it


class Edge(NamedTuple):
    """A drawn line, or a side of a filled box: where it is, and from where to where it goes."""

    place: float
    start: float
    end: float


class Page(NamedTuple):
    """What is on a page. `style` tells the look of the character at an offset: equal looks are equal.

    `indents` are put before lines of text, by the offsets of their first words.
    """

    words: Sequence[Word]
    across: Sequence[Edge] = ()
    upright: Sequence[Edge] = ()
    style: Callable[[int], object] = lambda _: None
    indents: Mapping[int, str] = MappingProxyType({})

    def mirrored(self) -> "Page":
        """Return the page as in a mirror: what was read from the right is read from the left."""
        return self._replace(
            words=[word._replace(left=-word.right, right=-word.left) for word in self.words],
            across=[Edge(edge.place, -edge.end, -edge.start) for edge in self.across],
            upright=[edge._replace(place=-edge.place) for edge in self.upright],
        )


class Columns(NamedTuple):
    """The columns of a page's last table, for one that goes on without its header on the next page."""

    sides: tuple[tuple[float, float], ...]  # left and right of each
    names: list[str]


class _Piece(NamedTuple):
    """Words of one line with no more than a blank between them."""

    left: float
    top: float
    right: float
    bottom: float
    words: list[Word]

    @property
    def text(self) -> str:
        return _joined(word.text for word in self.words)


_Line = list[_Piece]
_Boxed = TypeVar("_Boxed", Word, _Piece)
_Any = TypeVar("_Any")


def _joined(texts: Iterable[str]) -> str:
    """Return the texts as one line; U+FFFE is a hyphen at the end of a line, and the word goes on."""
    return " ".join(texts).replace("\ufffe ", "\ufffe")


def _unwrapped(lines: Iterable[str]) -> str:
    """Return the lines of a cell as one; U+FFFE also stands behind a hyphen that may only divide a word."""
    found: list[str] = []
    for line in lines:
        divided = bool(found) and found[-1][-1:] == "-" and found[-1][-2:-1].isalpha() and line[:1].islower()
        found += [f"{found.pop()}\ufffe{line}"] if divided else [line]
    return unwrapped(found).replace("\ufffe ", "\ufffe")


class _Table(NamedTuple):
    top: float
    sides: tuple[tuple[float, float], ...]  # of the columns
    rows: list[list[str]]
    styles: list[object]  # of each row
    ruled: bool = False  # found by its lines, which end here:
    left: float = 0.0
    right: float = 0.0
    bottom: float = 0.0


class _Box(NamedTuple):
    """A group of lines that touch each other."""

    across: list[Edge]
    upright: list[Edge]
    headed: bool = False  # whether its first row is known to be a header


class _Frame(NamedTuple):
    """A drawn box with lines of text that are read without those beside it: a card, a tile, a box of a chart."""

    left: float
    top: float
    right: float
    bottom: float
    pieces: list[_Piece]
    blocks: list["_Block"]

    def holds(self, each: "_Piece | _Block") -> bool:
        """Return whether the middle of the other lies within."""
        return (
            self.left < (each.left + each.right) / 2 < self.right
            and self.top < (each.top + each.bottom) / 2 < self.bottom
        )

    def is_level(self, each: "_Piece | _Block") -> bool:
        """Return whether most of the one or the other stands beside the other one."""
        common = min(self.bottom, each.bottom) - max(self.top, each.top)
        return 2 * common > min(self.bottom - self.top, each.bottom - each.top)


_Block = _Table | _Frame


def text_of(page: Page, before: Columns | None = None) -> tuple[str | None, Columns | None]:
    """Return the page's text in reading order, and the columns of the table at its end.

    The text is None if the order of the words as they are drawn is as good: there are no tables and no columns.
    Paragraphs of a table begin with `TABLE`.
    `before` are the columns of the table at the end of the page before.
    """
    pieces = _pieces(_with_initials(_with_stamps(page.words)))
    if len(pieces) > _MOST_PIECES:
        return None, None
    tables: list[_Block] = []
    head, pieces, foot = _without_margins(pieces)
    groups = _touching(page, pieces)
    for box in _boxes(page, groups, pieces):
        table, pieces = _ruled(page, box, pieces)
        tables += [] if table is None else [table]
    found = [*head, *_flow(page, *_with_frames(groups, pieces, tables)), *foot]
    lines = [part for part in found if isinstance(part, str)]
    if len(lines) == len(found) and " ".join(lines).split() == [word.text for word in page.words]:
        return None, None
    parts: list[str] = []
    last: Columns | None = None
    opening = before
    for part in found:
        if isinstance(part, str):
            parts.append(part)
            # A running header may stand above a table that goes on; a paragraph may not.
            if sum(map(len, parts)) > 4 * REPEATED:
                opening = None
            last = last if last is not None and len(part) <= 2 * REPEATED else None
        else:
            written, last = _written(part, opening)
            parts += ["", *written]
            opening = None
    return "\n".join(parts).strip("\n").replace("\n\n\n", "\n\n"), last


# ---- words to lines


def _with_initials(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words; an initial as high as several lines is joined to the rest of its word beside it."""
    usual = median_low([word.bottom - word.top for word in words] or [0.0])
    found = list(words)
    for initial in words:
        height = initial.bottom - initial.top
        if height < INITIAL * usual or len(initial.text) > 1 or not initial.text.isalpha():
            continue
        beside = [
            word
            for word in words
            if -1 < word.left - initial.right < height / 4 and word.bottom - word.top < height / INITIAL
            if initial.top < _level(word) < initial.bottom
        ]
        rest = min(beside, key=lambda word: word.top, default=initial)
        if len(beside) > 1 and rest.text[0].islower():
            found[found.index(rest)] = rest._replace(text=f"{initial.text}{rest.text}", left=initial.left)
            found.remove(initial)
    return found


def _pieces(words: Sequence[Word]) -> list[_Piece]:
    """Return the pieces of lines, from top to bottom."""
    found: list[_Piece] = []
    for row in _with_scripts(_lines(words)):
        run = [row[0]]
        first = _behind_dots(row)
        for word in row[1:]:
            size = min(word.bottom - word.top, run[-1].bottom - run[-1].top)
            if word is first or word.left - run[-1].right > _apart(run, word) * size:
                found.append(_piece(run))
                run = []
            run.append(word)
        found.append(_piece(run))
    return found


def _behind_dots(row: Sequence[Word]) -> Word | None:
    """Return the first of several figures behind dots that lead to them; a page's number, in contents, is alone."""
    at = max((at for at, word in enumerate(row, 1) if word.text.endswith(".")), default=len(row))
    led = sum(is_figure(word.text) for word in row[at:]) > 1 and _LEADER.search(_joined(word.text for word in row[:at]))
    return row[at] if led else None


def _with_scripts(lines: Sequence[list[Word]]) -> Iterator[list[Word]]:
    """Yield the lines; exponents and indices, which stand higher and lower, are in those of what they belong to."""
    found = [list(line) for line in lines]
    for one, other in (*pairwise(found), *((below, above) for above, below in pairwise(found))):
        most = max(map(_height, other), default=0.0)
        lefts = [each.left for each in other]
        scripts: dict[int, list[Word]] = {}  # by the word that they belong to
        for word, behind in zip(one, [*one, None][1:], strict=True):
            at = bisect_left(lefts, word.left) - 1
            if at < 0 or _height(word) >= _SCRIPT * most:
                continue
            before, size = other[at], _height(other[at])
            near = -1 < word.left - before.right < 0.2 * size and before.top < _level(word) < before.bottom
            alone = behind is None or behind.left - word.right > _height(word) / 2  # no line of words
            if near and alone and _height(word) < _SCRIPT * size:
                scripts.setdefault(at, []).append(word)
        if scripts:
            moved = {id(word) for words in scripts.values() for word in words}
            one[:] = [word for word in one if id(word) not in moved]
            other[:] = [each for at, word in enumerate(other) for each in (word, *scripts.get(at, ()))]
    yield from filter(None, found)


def _height(word: Word) -> float:
    return word.bottom - word.top


def _level(each: Word | _Piece) -> float:
    return (each.top + each.bottom) / 2


def _apart(run: Sequence[Word], word: Word) -> float:
    """Return how much space, in sizes of the letters, is between cells: a unit stands further from its figure."""
    if len(run) == 1 and run[0].text in _CURRENCIES:
        return 6.0
    if word.text in _CURRENCIES:
        return 0.4
    if is_figure(word.text) or (is_figure(run[-1].text) and word.text not in _AFTER):
        return 0.6  # the blank between thousands is narrower, the times of a timetable are nearer than words
    return 2.0 if word.text in _AFTER else 0.8


def _piece(words: list[Word]) -> _Piece:
    """Return the words, which are from left to right, as a piece."""
    return _Piece(words[0].left, words[0].top, words[-1].right, words[0].bottom, words)


def _lines(boxes: Iterable[_Boxed]) -> list[list[_Boxed]]:
    """Return the words or pieces by lines, from left to right in each."""
    found: list[list[_Boxed]] = []
    for each in sorted(boxes, key=lambda each: (each.top + each.bottom, each.left)):
        middle, height = (each.top + each.bottom) / 2, each.bottom - each.top
        for line in reversed(found[-3:]):
            first = line[0]
            size = first.bottom - first.top
            if abs(middle - (first.top + first.bottom) / 2) < 0.4 * min(size, height):
                line.insert(0 if size < _SCRIPT * height else len(line), each)  # an exponent measures no line
                break
        else:
            found.append([each])
    for line in found:
        line.sort(key=lambda each: each.left)
    return found


def headline(page: Page) -> str | None:
    """Return the text in the largest letters, if they are larger than most: one to three lines near each other."""
    lines = [
        line
        for line in _lines(
            _pieces([word for word in _with_stamps(page.words) if word.at >= 0 and not _is_upright(word)])
        )
        if any(map(str.isalpha, line[0].text)) and (len(line) > 1 or line[0].text[1:])
    ]
    # A sign of a formula may be larger than all letters.
    sizes = [round(median_low([_height(word) for piece in line for word in piece.words])) for line in lines]
    if not sizes or max(sizes) < _LARGE * median_low(sizes):
        return None
    at = sizes.index(max(sizes))
    some = takewhile(
        lambda each: each[1] >= 0.95 * sizes[at], zip(lines[at : at + _HEADLINE], sizes[at:], strict=False)
    )
    return one_line(" ".join(piece.text for line, _ in some for piece in line), 200)


def _is_upright(word: Word) -> bool:
    return len(word.text) > 2 and _height(word) > 2 * (word.right - word.left)


def _with_stamps(words: Iterable[Word]) -> list[Word]:
    """Return the words; those of a line that runs up or down the margin, as the stamp of an archive does, are one."""
    found: list[Word] = []
    for word in words:
        last = found[-1] if found else None
        if last and _is_upright(last) and last.left - 1 < word.left and word.right < last.right + 1:
            top, bottom = min(last.top, word.top), max(last.bottom, word.bottom)
            found[-1] = last._replace(text=f"{last.text} {word.text}", top=top, bottom=bottom)
        else:
            found.append(word)
    return found


# ---- columns of prose


def _without_margins(pieces: list[_Piece]) -> tuple[list[str], list[_Piece], list[str]]:
    """Return the first line, the pieces and the last line.

    The lines only if they were drawn last, and smaller than what is below the first, as browsers print margins.
    """
    lines = _lines(pieces)
    if len(lines) < 3 or lines[0][0].bottom - lines[0][0].top >= lines[1][0].bottom - lines[1][0].top:
        return [], pieces, []
    places = [[word.at for piece in line for word in piece.words] for line in lines]
    last = max(map(max, places[1:-1]))
    head, foot = (" ".join(piece.text for piece in lines[at]) for at in (0, -1))
    if min(places[0]) < last:
        return [], pieces, []
    if min(places[-1]) < max(places[0]):
        return [head], [piece for piece in pieces if piece not in lines[0]], []
    return [head], [piece for piece in pieces if piece not in lines[0] and piece not in lines[-1]], [foot]


def _flow(page: Page, pieces: Sequence[_Piece], blocks: Sequence[_Block], depth: int = 0) -> Iterator[str | _Table]:
    """Yield the lines of text, and tables; columns of prose one after the other, with the tables in each."""
    gutter = _gutter(pieces) if depth < 4 else None
    across = [each for each in blocks if gutter is None or each.left < gutter < each.right]
    if across:
        yield from _with_blocks(page, pieces, blocks, across, depth)
        return
    if gutter is None:
        for part in _divided(_lines(pieces)):
            yield from _with_open_tables(page, part)
        return
    both: list[_Piece | _Block] = [*pieces, *blocks]
    band: list[_Piece | _Block] = []
    bottom = 0.0  # of the band
    ordered = sorted(both, key=_top)
    for at, piece in enumerate((*ordered, None)):
        crosses = piece is None or piece.left < gutter < piece.right
        if piece is not None and not crosses and (not band or _belongs(ordered[at:], band, bottom, gutter)):
            bottom = max(bottom, piece.bottom) if band else piece.bottom
            band.append(piece)
            continue
        left = _kinds(each for each in band if each.right <= gutter)
        right = _kinds(each for each in band if each.right > gutter)
        if all(some or _is_prose(prose) for prose, some in (left, right)) or _are_columns(left[0], right[0]):
            yield from _flow(page, *left, depth + 1)
            yield from _flow(page, *right, depth + 1)
        else:
            yield from _flow(page, *_kinds(band), 4)
        band = [piece] if piece is not None and not crosses else []
        bottom = band[0].bottom if band else 0.0
        if isinstance(piece, _Piece) and crosses:
            yield from _with_open_tables(page, _lines([piece]))


def _with_blocks(
    page: Page, pieces: Sequence[_Piece], blocks: Sequence[_Block], across: Sequence[_Block], depth: int
) -> Iterator[str | _Table]:
    """Yield the lines of text, and tables, above a block that goes across, in it, and below."""
    block = first = min(across, key=_top)
    border = first.top
    if isinstance(first, _Frame):  # the boxes of a row may begin at other heights
        level = (each for each in across if isinstance(each, _Frame) and first.is_level(each))
        block = min(level, key=lambda each: each.left)
        beside = [piece for piece in pieces if first.is_level(piece)]
        if beside:
            on_left = min(piece.left for piece in beside) < block.left
            border = block.bottom if on_left else min(border, *map(_top, beside))
    above, below = _divide(pieces, lambda piece: piece.top < border)
    higher, others = _divide((each for each in blocks if each is not block), lambda each: each.top < border)
    yield from _flow(page, above, higher, depth)
    if isinstance(block, _Frame):
        yield ""
        yield from _flow(page, block.pieces, block.blocks, depth)
        yield ""
    else:
        yield block
    yield from _flow(page, below, others, depth)


def _stand_apart(some: Sequence[_Piece], others: Sequence[_Piece], most: float = 1 / 3) -> bool:
    """Return whether at most this share of lines stand at the height of one of the others, as in rows of a table."""
    at = {(side, round(2 * y) + near) for each in others for side, y in enumerate(_sides(each)) for near in (-1, 0, 1)}
    level = sum(any((side, round(2 * y)) in at for side, y in enumerate(_sides(each))) for each in some)
    return level <= most * min(len(some), len(others))


def _sides(piece: _Piece) -> tuple[float, float]:
    return piece.top, piece.bottom


def _belongs(below: Sequence[_Piece | _Block], band: Sequence[_Piece | _Block], bottom: float, gutter: float) -> bool:
    """Return whether what is below a band of two columns belongs to it.

    It is near, or prose of one column alone, or the left column was drawn down to its end before the right one.
    """
    first = below[0]
    gap, height = first.top - bottom, first.bottom - first.top
    if gap < height:
        return True
    rest = list(takewhile(lambda each: not each.left < gutter < each.right, below))
    if len({each.left < gutter for each in rest}) == 1:  # a page's number may be far below
        return gap < _APART * height and _is_prose(_kinds(rest)[0])
    return _is_drawn_before(*_divide(_kinds([*band, *rest])[0], lambda each: each.right <= gutter))


def _top(each: _Piece | _Block) -> float:
    return each.top


def _kinds(both: Iterable[_Piece | _Block]) -> tuple[list[_Piece], list[_Block]]:
    some = list(both)
    return [each for each in some if isinstance(each, _Piece)], [each for each in some if not isinstance(each, _Piece)]


def _gutter(pieces: Sequence[_Piece]) -> float | None:
    """Return where empty space divides the most lines into two columns; None if it doesn't."""
    lines = [_justified(line) for line in _lines(pieces)]
    pieces = sorted((piece for line in lines for piece in line), key=_top)
    lefts = Counter(round(piece.left / 2) for piece in pieces)
    ragged: dict[int, list[_Line]] = {}  # lines in the other direction begin at the right end of their column
    for line in lines:
        if len(line) == 2 and _is_from_right(line[0].text) != _is_from_right(line[1].text):
            ragged.setdefault(round(line[1].right / 2), []).append(line)
    places: list[float] = [place for place, count in lefts.most_common(8) if count >= 3]
    for some in ragged.values():
        # Sentences go on from line to line; a form's labels in two languages don't.
        english = [piece for line in some for piece in line if not _is_from_right(piece.text)]
        if len(some) >= 3 and _goes_on(english) and any(_SENTENCE_END.search(piece.text) for piece in english):
            places.append(min(line[1].left for line in some) / 2)
    best, most = None, 0
    for place in places:
        left = [piece for piece in pieces if piece.right <= 2 * place - 1]
        right = [piece for piece in pieces if piece.left >= 2 * place - 1]
        few = min(len(left), len(right))
        if few > most and len(left) + len(right) >= 0.6 * len(pieces) and _are_columns(left, right):
            ends = sorted(piece.right for piece in left)
            best, most = (ends[len(ends) * 9 // 10] + 2 * place) / 2, few  # other lines may begin further left
    return best


def _are_columns(left: Sequence[_Piece], right: Sequence[_Piece]) -> bool:
    """Return whether both are prose, or one is and was drawn as a whole before or after what is beside it."""
    prose = [_is_prose(left), _is_prose(right)]
    if all(prose) or not any(prose) or not (left and right):
        return all(prose)
    top, bottom = max(left[0].top, right[0].top), min(left[-1].top, right[-1].top)
    some, others = (
        [piece for piece in side if top <= piece.top <= bottom and piece.words[-1].at >= 0] for side in (left, right)
    )
    if min(len(some), len(others)) < _LEAST_ROWS:
        return False
    # Values of a form may be drawn after all labels, each beside its own.
    if not _stand_apart(some, others, most=2 / 3 if _goes_on(left if prose[0] else right) else 1 / 3):
        return False
    return _is_drawn_before(some, others) or _is_drawn_before(others, some)


def _is_drawn_before(some: Iterable[_Piece], others: Iterable[_Piece]) -> bool:
    """Return whether all of the one was drawn before the other; marks of lists, which may come last, don't count."""
    places, beside = ([piece.words[-1].at for piece in side if piece.words[-1].at >= 0] for side in (some, others))
    return max(places, default=0) < min(beside, default=0)


def _is_prose(pieces: Sequence[_Piece]) -> bool:
    """Return whether most lines are sentences; a few rows of a table with figures, or a formula, may be among them."""
    lines = [_justified(line) for line in _lines(pieces)]
    rows, prose = _divide(lines, lambda line: len(line) > 1 and any(is_figure(piece.text) for piece in line))
    texts = [piece.text for line in (prose if 3 * len(rows) <= len(lines) else lines) for piece in line]
    if len(texts) < 3:
        return False
    if 5 * sum(map(is_figure, texts)) >= len(texts):
        return False
    if sum(map(len, texts)) + 2 * len(_IDEOGRAPH.findall("".join(texts))) >= 20 * len(texts):
        return True
    # Lines of narrow columns are pieces of sentences; cells of a table are not.
    words = sum(len(text.split()) for text in texts)
    return _goes_on(pieces) and 2 * words >= 5 * len(texts) and any(map(_SENTENCE_END.search, texts))


def _justified(line: _Line) -> _Line:
    """Return the line; words with equal gaps are one piece, as a narrow column that is justified has them."""
    gaps = [piece.left - before.right for before, piece in pairwise(line)]
    found = line[:1]
    for at, piece in enumerate(line[1:]):
        beside = gaps[max(0, at - 1) : at] + gaps[at + 1 : at + 2]
        most = _EVEN[_is_from_right(piece.text)] * (piece.bottom - piece.top)
        even = any(abs(gaps[at] - gap) < most for gap in beside)
        if even and len(line[at].words) == len(piece.words) == 1 and not any(map(str.isdigit, piece.text)):
            found[-1] = _piece([*found[-1].words, *piece.words])
        else:
            found.append(piece)
    return found


def _goes_on(pieces: Sequence[_Piece]) -> bool:
    """Return whether a third of the lines or more begin within a sentence."""
    return 3 * sum(_is_lower(piece.text) for piece in pieces) >= len(pieces)


# ---- boxes beside each other


def _with_frames(
    groups: Iterable[_Box], pieces: list[_Piece], blocks: list[_Block]
) -> tuple[list[_Piece], list[_Block]]:
    """Return the pieces and blocks that are in no box beside another one, or beside text, and these boxes."""
    found = list(islice(_filled_boxes(groups, pieces, blocks), _MOST_FRAMES))
    boxes = sorted(found, key=lambda box: (box.right - box.left) * (box.bottom - box.top))
    framed = {id(piece) for box in boxes for piece in pieces if box.holds(piece)}
    for box in boxes:
        inside, around = _divide(pieces, box.holds)
        level, _ = _divide(around, box.is_level)
        within, others = _divide(blocks, box.holds)
        # A column of a table may be filled.
        bare = [each for each in level if id(each) not in framed]
        beside = level or any(map(box.is_level, others))
        if beside and (not bare or _stand_apart(inside, bare)):
            pieces, blocks = around, [*others, box._replace(pieces=inside, blocks=within)]
    return pieces, blocks


def _filled_boxes(groups: Iterable[_Box], pieces: Sequence[_Piece], blocks: Sequence[_Block]) -> Iterator[_Frame]:
    """Yield the boxes, with nothing in them yet, that hold several lines or tables."""
    for box in groups:
        xs, ys = _places(box.upright), _places(box.across)
        if len(xs) < 2 or len(ys) < 2 or len(xs) * len(ys) > _MOST_CELLS:
            continue
        fields: dict[int, list[tuple[int, int]]] = {}
        cells = _cells(box, xs, ys)
        for row, line in enumerate(cells):
            for column, cell in enumerate(line):
                fields.setdefault(cell, []).append((row, column))
        inside: dict[int, list[_Piece | _Block]] = {}
        for each in (*pieces, *blocks):
            row, column = bisect_right(ys, (each.top + each.bottom) / 2), bisect_right(xs, (each.left + each.right) / 2)
            if 0 < row < len(ys) and 0 < column < len(xs):
                inside.setdefault(cells[row - 1][column - 1], []).append(each)
        for cell, some in inside.items():
            rows, columns = ({place[side] for place in fields[cell]} for side in (0, 1))
            held, tables = _kinds(some)
            # What is around the boxes of a chart is no rectangle.
            if len(fields[cell]) == len(rows) * len(columns) and len(_lines(held)) + len(tables) > 1:
                yield _Frame(xs[min(columns)], ys[min(rows)], xs[max(columns) + 1], ys[max(rows) + 1], [], [])


def _divide(some: Iterable[_Any], holds: Callable[[_Any], bool]) -> tuple[list[_Any], list[_Any]]:
    """Return those that meet the condition, and the others."""
    meet: tuple[list[_Any], list[_Any]] = [], []
    for each in some:
        meet[not holds(each)].append(each)
    return meet


# ---- tables by lines


class _Groups:
    """Numbers in groups that are joined pair by pair."""

    def __init__(self, count: int) -> None:
        self._up = list(range(count))

    def of(self, at: int) -> int:
        while self._up[at] != at:
            self._up[at] = self._up[self._up[at]]
            at = self._up[at]
        return at

    def join(self, one: int, other: int) -> None:
        self._up[self.of(one)] = self.of(other)


def _boxes(page: Page, groups: Iterable[_Box], pieces: Sequence[_Piece]) -> Iterator[_Box]:
    """Yield the groups of lines with a table's, then those that only divide rows."""
    alone: dict[tuple[int, int], list[Edge]] = {}  # lines across by where they begin and end
    breaks = _breaks(page.across)
    for box in groups:
        across, upright = (
            box.across + _closing(box.upright, box.across),
            box.upright + _closing(box.across, box.upright),
        )
        if len(across) > 2 and len(upright) > 2:
            yield _Box(across, upright)
        else:
            for edge in box.across:
                alone.setdefault((round(edge.start), round(edge.end)), []).append(edge)
    for edges in alone.values():
        if len(edges) >= _LEAST_ROWS:
            found = list(_striped(sorted(edges), breaks, pieces))
            yield from found or _between_rules(sorted(edges), pieces)


def _beside_unfilled(upright: Sequence[Edge], pieces: Sequence[_Piece]) -> Iterator[Edge]:
    """Yield the lines between columns that aren't drawn in rows without a fill, where every other row has one."""
    gaps: dict[tuple[int, int], list[Edge]] = {}
    for above, below in pairwise(sorted(set(upright))):
        height = min(above.end - above.start, below.end - below.start)
        if below.place - above.place < 1 and _NEAR < below.start - above.end < 2 * height:
            gaps.setdefault((round(above.end), round(below.start)), []).append(
                Edge(above.place, above.end, below.start)
            )
    for (top, bottom), edges in gaps.items():
        xs = [edge.place for edge in edges]
        if _is_row(pieces, xs, top, bottom):
            yield from edges
            last = max(edge.end for edge in upright if abs(edge.place - xs[0]) < 1)
            if _is_row(pieces, xs, last, last + bottom - top):
                yield from (Edge(x, last, last + bottom - top) for x in xs)


def _is_row(pieces: Iterable[_Piece], xs: Sequence[float], top: float, bottom: float) -> bool:
    """Return whether what is between the heights stands in the columns, each piece in one."""
    row = [piece for piece in pieces if top < _level(piece) < bottom]
    columns = [bisect_right(xs, piece.left) for piece in row if xs[0] < piece.right and piece.left < xs[-1]]
    return len(set(columns)) > 1 and columns == [bisect_right(xs, piece.right) for piece in row]


def _touching(page: Page, pieces: Sequence[_Piece]) -> Sequence[_Box]:
    """Return the groups of lines that touch each other."""
    across, upright = _merged(page.across), _merged(page.upright)
    if len(across) + len(upright) > _MOST_EDGES:
        return ()
    upright = _merged([*upright, *_beside_unfilled(page.upright, pieces)])
    groups = _Groups(len(across) + len(upright))
    for one, flat in enumerate(across):
        for other, tall in enumerate(upright, len(across)):
            if (
                flat.start - _NEAR <= tall.place <= flat.end + _NEAR
                and tall.start - _NEAR <= flat.place <= tall.end + _NEAR
            ):
                groups.join(other, one)
    boxes: dict[int, _Box] = {}
    for at, edge in enumerate([*across, *upright]):
        box = boxes.setdefault(groups.of(at), _Box([], []))
        (box.across if at < len(across) else box.upright).append(edge)
    return list(boxes.values())


def _breaks(across: Iterable[Edge]) -> Callable[[float], list[float]]:
    """Return what gives for a height where its line is drawn in parts that meet: each cell may have its own."""
    found: dict[float, list[float]] = {}
    for one, other in pairwise(sorted(set(across))):
        long = min(one.end - one.start, other.end - other.start) > 2 * _NEAR  # no dashes
        if long and other.place - one.place < 1 and abs(other.start - one.end) < 1:
            found.setdefault(one.place, []).append(one.end)
    return lambda place: max((found[at] for at in found if abs(at - place) < 1), key=len, default=[])


def _striped(
    edges: Sequence[Edge], breaks: Callable[[float], Sequence[float]], pieces: Sequence[_Piece]
) -> Iterator[_Box]:
    """Yield the tables whose rows have lines between them, and whose columns have none: each begins in every row.

    Lines of text right above, with pieces in these columns, belong to the table. Where `breaks` gives some for a line,
    these are the columns of the row above it, or below.
    """
    start, end = edges[0].start - _NEAR, edges[0].end + _NEAR
    within = [piece for piece in pieces if start <= piece.left and piece.right <= end]
    tables: list[tuple[list[float], list[float]]] = []  # where rows, and columns, begin and end
    goes_on = False
    for top, below in pairwise([*(edge.place for edge in edges), math.inf]):
        row, ends = _until_gap([piece for piece in within if top - _NEAR <= piece.top < below - _NEAR])
        first = _lines(row)[0] if row else []
        cuts = breaks(below) or breaks(top)
        cuts = cuts if len(first) <= len(cuts) + 1 else []
        lefts = [start, *(cuts or [piece.left - _NEAR for piece in first[1:]]), end]
        known = tables[-1][1] if goes_on else []
        parts: Sequence[_Piece | Word] = row
        begins = [word.left - _NEAR for piece in first for word in piece.words]
        meets = [any(abs(each - left) < _NEAR / 2 for each in begins) for left in known[1:-1]]
        within_known = all(any(abs(left - each) < _NEAR for each in known) for left in lefts)  # cells may be joined
        if (meets and all(meets) and first[0].left < known[1]) or (cuts and within_known):
            lefts = known
        if cuts or lefts is known:  # a cell may reach as far as the next column, and be one piece with it
            parts = [word for piece in row for word in piece.words]
        crossed = any(part.left < left < part.right for part in parts for left in lefts[1:-1])
        filled = len({bisect_right(lefts, part.left) for part in parts}) if cuts else len(first)
        far = bool(cuts and first) and first[0].top - top > 0.8 * (first[0].bottom - first[0].top)
        if filled < 2 or crossed or len(first[0].text) > REPEATED or (below == math.inf and (far or not goes_on)):
            goes_on = False
            continue
        bottom = max(piece.bottom for piece in row) if ends or below == math.inf else below
        if len(known) == len(lefts) and all(abs(a - b) < _NEAR for a, b in zip(known, lefts, strict=True)):
            tables[-1][0].append(bottom)
        else:
            tables.append(([top, bottom], lefts))
        goes_on = not ends
    for ys, xs in tables:
        for line in reversed(_lines(piece for piece in within if piece.bottom < ys[0] + _NEAR)):
            columns = [bisect_right(xs, piece.left) for piece in line]
            fits = columns == [bisect_right(xs, piece.right) for piece in line] == sorted(set(columns))
            near = ys[0] - line[0].bottom < 0.8 * (line[0].bottom - line[0].top)
            under = next((each for each in _lines(within) if each[0].top > ys[0] - _NEAR), [])
            level = bool(breaks(ys[0])) and len(line) == len(xs) - 1 and _share_columns(line, under)
            if not fits or not near or (len(line) < max(3, len(xs) - 2) and not level):
                break
            ys.insert(0, line[0].top)
        if len(ys) > _LEAST_ROWS:
            yield _Box([Edge(y, xs[0], xs[-1]) for y in ys], [Edge(x, ys[0], ys[-1]) for x in xs])


def _between_rules(edges: Sequence[Edge], pieces: Sequence[_Piece]) -> Iterator[_Box]:
    """Yield the tables with a line above their header, one below it, and one at the end, as papers have them."""
    start, end = edges[0].start - _NEAR, edges[0].end + _NEAR
    within = [each for each in pieces if start < each.left and each.right < end]
    places = [edge.place for edge in edges]
    bands = [[each for each in within if top < _level(each) < bottom] for top, bottom in pairwise(places)]
    at = 0
    while at + 1 < len(bands):
        head = max(_lines(bands[at]), key=len, default=[])
        columns = [(name.left, name.right) for name in head]
        names = [piece.text for piece in head]
        if (
            len(names) < 2
            or any(map(str.isdigit, "".join(names)))
            or _has_values(head)
            or max(map(len, names)) > REPEATED / 2
        ):
            at += 1
            continue
        last = at
        while last < len(bands) and (wider := _widened(columns, bands[last])):
            columns, last = wider, last + 1
        body = _lines(each for band in bands[at + 1 : last] for each in band)
        ys = [places[at], *([places[at + 1]] if last > at + 1 else [])]
        for above, line in pairwise(body):
            # A label may stand beside the middle of its rows.
            if len(line) > 1 and (line[0].left < columns[1][0] or any(is_figure(piece.text) for piece in line)):
                ys.append((max(each.bottom for each in above) + min(each.top for each in line)) / 2)
        prose = sum(
            _is_prose([each for line in body for each in line if left <= each.left <= right]) for left, right in columns
        )
        if len(ys) >= _LEAST_ROWS and prose < len(columns):
            xs = [start, *(left - _NEAR for left, _ in columns[1:]), end]
            headed = len(columns) > 2  # of two, the first row may be a label with its value
            across = [Edge(y, start, end) for y in (*ys, places[last])]
            yield _Box(across, [Edge(x, ys[0], places[last]) for x in xs], headed)
        at = max(last, at + 1)


def _widened(columns: Sequence[Sequence[float]], pieces: Sequence[_Piece]) -> list[tuple[float, float]]:
    """Return the columns as wide as these pieces are, too; none if a piece is in none of them, or in several."""
    found = [(left, right) for left, right in columns]
    for each in sorted(pieces, key=lambda each: each.left - each.right):  # a line may be in pieces, if others are not
        met = [at for at, (left, right) in enumerate(found) if each.left < right and left < each.right]
        if len(met) != 1:
            return []
        left, right = found[met[0]]
        found[met[0]] = min(left, each.left), max(right, each.right)
    return found if pieces else []


def _until_gap(pieces: Sequence[_Piece]) -> tuple[list[_Piece], bool]:
    """Return the pieces down to an empty space between lines, and whether there is one."""
    bottom = math.inf
    for at, piece in enumerate(pieces):
        if piece.top - bottom > 0.8 * (piece.bottom - piece.top):
            return list(pieces[:at]), True
        bottom = max(bottom, piece.bottom) if at else piece.bottom
    return list(pieces), False


def _closing(edges: Sequence[Edge], crossing: Sequence[Edge]) -> list[Edge]:
    """Return the lines that are not drawn, where several `edges` end: many tables have no frame.

    Where a header alone is framed, a single line between two columns may go on below it.
    """
    ends: dict[int, list[Edge]] = {}
    for edge in edges:
        for end in (edge.start, edge.end):
            if not any(abs(each.place - end) <= _NEAR for each in crossing):
                ends.setdefault(round(end / _NEAR), []).append(edge)
    places, between = sorted(edge.place for edge in edges), sorted(each.place for each in crossing)
    closing = [
        Edge(end * _NEAR, min(edge.place for edge in some), max(edge.place for edge in some))
        for end, some in ends.items()
        if len(some) > 1
    ]
    for end, [edge, *others] in ends.items():
        inner = not others and places[0] < edge.place < places[-1] and len(between) > 1
        if inner and abs(edge.start - between[0]) <= _NEAR and between[-1] < edge.end:
            closing.append(Edge(end * _NEAR, places[0], places[-1]))
    return closing


def _merged(edges: Iterable[Edge]) -> list[Edge]:
    """Return the lines without repetition; pieces of one line are one."""
    found: list[Edge] = []
    for edge in sorted(edges):
        near = takewhile(lambda at: edge.place - found[at].place <= _NEAR / 2, range(len(found) - 1, -1, -1))  # noqa: B023
        for at in near:
            last = found[at]
            if edge.start <= last.end + _NEAR and last.start <= edge.end + _NEAR:
                found[at] = Edge(last.place, min(last.start, edge.start), max(last.end, edge.end))
                break
        else:
            found.append(edge)
            if len(found) > _MOST_EDGES:
                break
    return found


def _ruled(page: Page, box: _Box, pieces: list[_Piece]) -> tuple[_Table | None, list[_Piece]]:
    """Return the table within the lines, or None, and the pieces outside of it."""
    xs, ys = _places(box.upright), _places(box.across)
    width, height = len(xs) - 1, len(ys) - 1
    if width < 2 or height < 2 or width * height > _MOST_CELLS:
        return None, pieces
    words = [word for piece in pieces for word in piece.words if xs[0] < word.left < xs[-1]]
    box = _Box([*box.across, *(Edge(cut, xs[0], xs[-1]) for cut in _cuts(words, xs, ys))], box.upright, box.headed)
    ys = _places(box.across)
    cells = _cells(box, xs, ys)
    inside, outside = _sorted(pieces, cells, xs, ys)
    # Lines at which no text begins divide nothing: those of a drawing, or of a gap between two cells.
    rows_of: dict[int, int] = {}
    columns_of: dict[int, int] = {}
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            rows_of.setdefault(cell, row)
            columns_of[cell] = min(columns_of.get(cell, column), column)
    rows = sorted({rows_of[cell] for cell in inside})
    columns = sorted({columns_of[cell] for cell in inside})
    placed = {id(word) for words in inside.values() for word in words}
    cut = sum(len({id(word) in placed for word in piece.words}) > 1 for piece in pieces)
    if len(rows) < 2 or len(columns) < 2 or 2 * cut > len(rows):  # boxes around words of lines are no table
        return None, pieces
    texts = {cell: _text_of_cell(_pieces(words)) for cell, words in inside.items()}
    shown: set[int] = set()
    table = [_row([cells[row][column] for column in columns], texts, shown) for row in rows]
    styles: list[object] = []
    for row in rows:
        begun = {cell for cell in cells[row] if cell in inside and rows_of[cell] == row}
        looks = Counter(page.style(inside[cell][0].at) for cell in begun)
        styles.append(looks.most_common(1)[0][0] if looks else None)
    # Boxes of a slide, of which a row alone is divided, are no table.
    if sum(len(own(line)) > 1 for line in table) < 2:
        return None, pieces
    if box.headed:
        styles[0] = "header"
    sides = tuple(pairwise([*(xs[column] for column in columns), xs[-1]]))
    return _Table(ys[rows[0]], sides, table, styles, True, xs[0], xs[-1], ys[-1]), outside


def _text_of_cell(pieces: Sequence[_Piece]) -> str:
    """Return the text of a cell; a label in smaller letters, above its value as in forms, has a colon."""
    height = _SCRIPT * max(_height(piece.words[0]) for piece in pieces)
    label, value = _divide(pieces, lambda piece: _height(piece.words[0]) < height)
    if not label or label[-1].bottom > value[0].top + _NEAR:
        return _unwrapped(piece.text for piece in pieces)
    return ": ".join(_unwrapped(piece.text for piece in part).rstrip(":") for part in (label, value))


def _row(cells: Iterable[int], texts: Mapping[int, str], shown: set[int]) -> list[str]:
    row: list[str] = []
    for cell in cells:
        text = texts.get(cell, "")
        if cell in shown and text:
            row.append(Covered((text if len(text) <= REPEATED else "") if row else row_label(text)))
        else:
            row.append(text)
        shown.add(cell)
    return row


def _cuts(words: Sequence[Word], xs: Sequence[float], ys: Sequence[float]) -> list[float]:
    """Return where space in all columns divides rows that no line does: above and below, several columns have words."""
    found: list[float] = []
    ordered = sorted(words, key=lambda word: word.top)
    at = 0
    for top, bottom in pairwise(ys):
        groups: list[list[Word]] = []
        low = -math.inf
        while at < len(ordered) and ordered[at].top < bottom:
            word = ordered[at]
            at += 1
            if word.top >= top - _NEAR:
                if word.top - low >= 0.6 * _height(word):
                    groups.append([])
                groups[-1].append(word)
                low = max(low, word.bottom)
        for above, below in pairwise(groups):
            few = min(len({bisect_right(xs, word.left) for word in group}) for group in (above, below))
            labels = max(map(_height, above)) < _SCRIPT * max(map(_height, below))  # of boxes, above their values
            if few > max(1, len(xs) // 3) and not labels:
                found.append((max(word.bottom for word in above) + below[0].top) / 2)
    return found


def _sorted(
    pieces: Iterable[_Piece], cells: Sequence[Sequence[int]], xs: Sequence[float], ys: Sequence[float]
) -> tuple[dict[int, list[Word]], list[_Piece]]:
    """Return the words by the cell that they are in, and the pieces outside of all."""
    inside: dict[int, list[Word]] = {}
    outside: list[_Piece] = []
    for piece in pieces:
        if piece.bottom < ys[0] or piece.top > ys[-1]:
            outside.append(piece)
            continue
        left: list[Word] = []
        for word in piece.words:
            x, y = (word.left + word.right) / 2, _level(word)
            if xs[0] < x < xs[-1] and ys[0] < y < ys[-1]:
                inside.setdefault(cells[bisect_right(ys, y) - 1][bisect_right(xs, x) - 1], []).append(word)
            else:
                left.append(word)
        if left:
            outside.append(_piece(left))
    return inside, outside


def _places(edges: Iterable[Edge]) -> list[float]:
    found: list[float] = []
    for place in sorted(edge.place for edge in edges):
        if not found or place - found[-1] > _NEAR:
            found.append(place)
    return found


def _cells(box: _Box, xs: Sequence[float], ys: Sequence[float]) -> list[list[int]]:
    """Return for each field of the grid the number of its cell: fields without a line between them are one."""
    width, height = len(xs) - 1, len(ys) - 1
    upright = _by_place(box.upright, xs)
    across = _by_place(box.across, ys)
    groups = _Groups(width * height)
    for row in range(height):
        for column in range(width):
            at = row * width + column
            if column and not _covers(upright[column], ys[row], ys[row + 1]):
                groups.join(at, at - 1)
            if row and not _covers(across[row], xs[column], xs[column + 1]):
                groups.join(at, at - width)
    return [[groups.of(row * width + column) for column in range(width)] for row in range(height)]


def _by_place(edges: Iterable[Edge], places: Sequence[float]) -> list[list[Edge]]:
    found: list[list[Edge]] = [[] for _ in places]
    for edge in edges:
        found[bisect_right(places, edge.place) - 1].append(edge)
    return found


def _covers(edges: Iterable[Edge], start: float, end: float) -> bool:
    return sum(max(0.0, min(edge.end, end) - max(edge.start, start)) for edge in edges) > 0.6 * (end - start)


# ---- tables without lines


def _with_open_tables(page: Page, lines: Sequence[_Line]) -> Iterator[str | _Table]:
    at = 0
    while at < len(lines):
        if blocks := _beside(lines[at : at + _MOST_BESIDE + 1]):
            for block in blocks:
                yield from (" ".join(piece.text for piece in line) for line in filter(None, block))
                yield ""
            at += len(blocks[0])
            continue
        begins = not _has_values(lines[at]) if len(lines[at]) > 1 else _is_group(lines[at : at + 4])
        end = _block_end(lines, at) if begins else at
        table = _open(page, lines[at:end]) if end - at > 2 else None
        if table is None:
            indent = page.indents.get(lines[at][0].words[0].at, "")
            yield indent + " ".join(piece.text for piece in lines[at])  # a hyphen at the end of a piece stays
            at += 1
        else:
            yield table
            at = end


def _beside(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Return the lines of each block of the first lines, if they are short blocks beside each other, as addresses are.

    Rows of a table have values of one kind below each other; addresses have names, streets and towns beside each other.
    A list, or labels with their values, may stand beside others, too.
    """
    lefts = [piece.left for piece in lines[0]]
    rows: list[dict[int, _Piece]] = []
    for above, line in pairwise([lines[0], *lines]):
        most = 2 * (line[0].bottom - line[0].top) if rows else _NEAR  # what a list's lines go on with is indented
        places = [next((at for at, left in enumerate(lefts) if -_NEAR < each.left - left < most), -1) for each in line]
        if (
            -1 in places
            or len({*places}) < len(places)
            or (rows and line[0].top - above[0].bottom > line[0].bottom - line[0].top)
        ):
            break
        rows.append(dict(zip(places, line, strict=True)))
    if not 1 < len(lefts) <= _MOST_BLOCKS or not _LEAST_ROWS <= len(rows) <= _MOST_BESIDE:
        return []
    columns = [[row[at] for row in rows if at in row] for at in range(len(lefts))]
    labels = {at for at, column in enumerate(columns[:-1]) if all(piece.text.endswith(":") for piece in column)}
    begins = [at for at in range(len(lefts)) if at - 1 not in labels]  # values belong to their labels
    plain = [columns[at] for at in begins if at not in labels]
    texts = [piece.text for column in plain for piece in column]
    if len(begins) < 2 or not plain or any(map(is_figure, texts)) or max(map(len, texts)) > REPEATED:
        return []
    full = [[row[at].text for at in begins] for row in rows if len(row) == len(lefts)]
    listed = sum(all(text.startswith(_BULLETS) for text in row) for row in full)
    if len(full) < _LEAST_ROWS - 1 or not (labels or listed > 1 or _are_addresses(full)):
        return []
    sides = pairwise([*begins, len(lefts)])
    return [[[row[at] for at in range(*side) if at in row] for row in rows] for side in sides]


def _are_addresses(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether numbers stand beside numbers in some rows, of other looks in each, and names beside names."""
    numbered = [[any(map(str.isdigit, text)) for text in row] for row in rows]
    looks = [
        [re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text)) for text in row]
        for row, some in zip(rows, numbered, strict=True)
        if all(some)
    ]
    alike = any(len(set(column)) < len(column) for column in zip(*looks, strict=True))
    mixed = sum(len(set(some)) > 1 for some in numbered)
    return bool(looks) and not alike and len(rows) - len(looks) - mixed > 1 and 4 * mixed <= len(rows)


def _has_values(line: _Line) -> bool:
    """Return whether each piece is a name with its value, as "Patient: J. Doe": no header, nor a row below one."""
    return all(_NAMED_VALUE.search(piece.text) for piece in line)


def _is_group(lines: Sequence[_Line]) -> bool:
    """Return whether the first line may be a header of several columns: above their names, not above the labels."""
    first, *below = lines
    if not below or len(below[0]) < 2:
        return False
    height, usual = (line[0].bottom - line[0].top for line in (first, below[0]))
    return height < _LARGE * usual and first[0].left > min(line[0].left for line in below) + 3 * height


def _divided(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    """Yield the lines in parts: behind a wider gap, a header with other columns begins another table."""
    start = 0
    gaps: list[float] = []
    rows: list[_Line] = []  # lines of several pieces
    for at, line in enumerate(lines):
        if len(line) > 1 and rows and rows[-1] is not lines[at - 1]:
            # Behind a title alone: what is beside each other above it, as in a letter's head, is none of its columns.
            beside = min(row[0].left for row in rows) < line[0].left + _NEAR and max(map(len, rows)) < len(line)
            if beside and len(lines[at - 1]) == 1 and _begins_with_header(lines[at:]):
                yield lines[start:at]
                start, gaps, rows = at, [], []
        elif len(line) > 1 and rows:
            gap, height = line[0].top - rows[-1][0].bottom, line[0].bottom - line[0].top
            below = lines[at + 1][0].top - line[0].bottom if at + 1 < len(lines) else math.inf
            near = median_low(gaps) if gaps else below
            wider = gap > max(1.5 * near, 0.5 * height)
            more = max(map(len, rows)) < len(line)
            if gaps:
                apart = (more and len(rows) >= _LEAST_ROWS) or not _share_columns(rows[-1], line)
            else:  # names of groups may stand above a gap
                apart = more and not any(_over_columns(rows[-1], lines[at:]))
            if wider and apart and _begins_with_header(lines[at:]):
                yield lines[start:at]
                start, gaps, rows = at, [], []
            else:
                gaps.append(gap)
        rows += [line] if len(line) > 1 else []
    yield lines[start:]


def _block_end(lines: Sequence[_Line], start: int) -> int:
    """Return where the lines end that may be a table: those of several pieces, with single lines between them."""
    end = start + 1
    alone = 0
    for at in range(start + 1, len(lines)):
        line, above = lines[at], lines[at - 1]
        height = line[0].bottom - line[0].top
        gap, size = line[0].top - above[0].bottom, above[0].bottom - above[0].top
        titled = height > _TITLE * size and (len(line) == 1 or (len(line) == 2 and _NUMBERED.fullmatch(line[0].text)))
        if gap > 2.5 * height or (titled and gap > height / 2):
            break
        alone = 0 if len(line) > 1 else alone + 1
        if alone > 2 or (alone and len(line[0].text) > 2 * REPEATED):
            break
        if not alone:
            end = at + 1
    begins = [piece.left for line in lines[start:end] for piece in line[1:]]
    for above, line in pairwise(lines[end - 1 :]):
        wrapped = line[0].top - above[0].bottom < _WRAPPED * (line[0].bottom - line[0].top)
        if not wrapped or not all(any(abs(piece.left - left) < _NEAR for left in begins) for piece in line):
            break
        end += 1  # the rest of the last row's cells
    return end


def _begins_with_header(lines: Sequence[_Line]) -> bool:
    header = find_header([[piece.text for piece in line] for line in takewhile(lambda line: len(line) > 1, lines)])
    return header is not None and header.at == 0


def _share_columns(above: _Line, below: _Line) -> bool:
    """Return whether a piece behind the first one of the line below begins, ends or is centred as one of the other."""
    return any(
        min(abs(one.left - other.left), abs(one.right - other.right), abs(_middle(one) - _middle(other))) < _NEAR / 2
        for one, other in product(above, below[1:])
    )


def _middle(piece: _Piece) -> float:
    return (piece.left + piece.right) / 2


def _open(page: Page, lines: Sequence[_Line]) -> _Table | None:
    """Return the table that the lines make, None if they don't."""
    over: list[_Line] = []
    while found := next(_over_columns(lines[len(over)], lines[len(over) + 1 :]), None):
        over.append(found)
    columns = _with_names(lines[len(over) :], _columns(line for line in lines[len(over) :] if len(line) > 1))
    lines = [*over, *lines[len(over) :]]
    if not 1 < len(columns) <= _MOST_COLUMNS or _is_spaced_prose(lines, columns):
        return None
    rows: list[list[str]] = []
    styles: list[object] = []
    begins: list[float] = []  # bottom of the row so far
    rule = _rule(page, lines, columns)
    apart = _are_apart(lines, columns)
    for line in lines:
        cells = _filled(line, columns)
        height = line[0].bottom - line[0].top
        close = line[0].top - begins[-1] < _WRAPPED * height if rows else False
        if close and (apart or _continues(rows[-1], cells)):
            rows[-1] = [_unwrapped(filter(None, (a, b))) for a, b in zip(rows[-1], cells, strict=True)]
            begins[-1] = line[0].bottom
            continue
        rows.append(cells)
        begins.append(line[0].bottom)
        styles.append((page.style(line[-1].words[0].at), line[0].top < rule))
    if not _is_table(rows, wrapped=apart):
        return None
    for row in rows:
        row[:] = [cell.rstrip(" .") if _LEADER.search(cell) else cell for cell in row]
    return _Table(lines[0][0].top, tuple((left, right) for left, right in columns), rows, styles)


def _over_columns(first: _Line, below: Sequence[_Line]) -> Iterator[_Line]:
    """Yield the first line if each of its pieces is centred over two columns or more; the pieces reach over these.

    A piece alone reaches over those around it whose middle is nearest to its own, but not if it stands over one.
    """
    columns = _columns(line for line in below if len(line) > 1)[1:]
    found: list[_Piece] = []
    for piece in first:
        met = [at for at, (left, right) in enumerate(columns) if left < piece.right and piece.left < right]
        runs = ((columns[at][0], right) for at in range(len(columns)) for _, right in columns[at + 1 :])
        around = [run for run in runs if not met or (run[0] <= columns[met[0]][0] and columns[met[-1]][1] <= run[1])]
        apart = [round(abs(_middle(piece) - sum(run) / 2)) for run in around]
        if not around or (len(met) < 2 if len(first) == 1 else min(apart) >= _SAME):
            return
        left, right = around[apart.index(min(apart))]  # the widest of those
        found.append(piece._replace(left=left, right=right))
        columns = [column for column in columns if column[0] > right]
    yield found


def _is_spaced_prose(lines: Iterable[_Line], columns: Sequence[Sequence[float]]) -> bool:
    """Return whether words in lower case reach over several columns, or share one, as those of a scan's lines do."""
    torn = count = 0
    for line in lines:
        taken: set[int] = set()
        for piece in line:
            met = {at for at, column in enumerate(columns) if piece.left < column[1] and column[0] < piece.right}
            torn += _is_lower(piece.text) and (len(met) > 1 or not met.isdisjoint(taken))
            taken |= met
        count += len(line)
    return torn > _TORN * count


def _is_lower(text: str) -> bool:
    """Return whether it begins with a letter in lower case, or of Arabic or Hebrew, which have no upper case."""
    return text[:1].islower() or _is_from_right(text)


def _is_from_right(text: str) -> bool:
    return unicodedata.bidirectional(text[:1] or " ") in RIGHT


def _rule(page: Page, lines: Sequence[_Line], columns: Sequence[Sequence[float]]) -> float:
    """Return where a line, or the end of a coloured row, divides the table; 0 if nothing or much does."""
    top, bottom, width = lines[0][0].bottom, lines[-1][0].top, columns[-1][1] - columns[0][0]
    across = (edge.place for edge in page.across if top - _NEAR < edge.place < bottom and edge.end - edge.start > width)
    found = {round(place / (2 * _NEAR)): place for place in across}
    return min(found.values()) if 0 < len(found) < 4 else 0.0


def _columns(lines: Iterable[_Line]) -> list[list[float]]:
    """Return where columns begin and end: what stands below each other, without what reaches over several of them."""
    pieces = [piece for line in lines for piece in line]
    found: list[list[float]] = []
    for piece in sorted((each for each in pieces if is_figure(each.text)), key=lambda each: each.left):
        if found and piece.left < found[-1][1]:
            found[-1][1] = max(found[-1][1], piece.right)
        else:
            found.append([piece.left, piece.right])
    for piece in sorted((each for each in pieces if not is_figure(each.text)), key=lambda each: each.right - each.left):
        met = [column for column in found if piece.left < column[1] and column[0] < piece.right]
        if len(met) == 1:
            met[0][:] = [min(met[0][0], piece.left), max(met[0][1], piece.right)]
        elif not met:
            found.append([piece.left, piece.right])
            if len(found) > _MOST_COLUMNS:
                break
    return sorted(found)


def _with_names(lines: Iterable[_Line], columns: Iterable[Sequence[float]]) -> list[Sequence[float]]:
    """Return the columns; a name alone and the figures on the right below it, as sheets are printed, are one."""
    rows = [line for line in lines if len(line) > 1]
    found: list[Sequence[float]] = []
    named = False  # whether the column before has a name alone
    for left, right in columns:
        held = [(at, each) for at, line in enumerate(rows) for each in line if each.left < right and left < each.right]
        if named and held and held[0][0] and all(is_figure(each.text) for _, each in held):
            found[-1] = (found[-1][0], right)
            named = False
        else:
            found.append((left, right))
            named = [at for at, _ in held] == [0]
    return found


def _filled(line: _Line, columns: Sequence[Sequence[float]]) -> list[str]:
    cells = [""] * len(columns)
    for piece in line:
        met = [at for at, column in enumerate(columns) if piece.left < column[1] and column[0] < piece.right]
        # A remark that begins with its column only runs on; a name is centred over its columns, or short.
        runs_on = met and abs(piece.left - columns[met[0]][0]) < _NEAR and len(piece.text) > REPEATED / 2
        for at in met[: 1 if runs_on else None] or [0]:
            if cells[at]:
                cells[at] = _joined((cells[at], piece.text))
            else:
                cells[at] = Covered(piece.text) if met and at > met[0] else piece.text
    return cells


def _is_table(rows: Sequence[Sequence[str]], *, wrapped: bool) -> bool:
    """Return whether the rows have figures, or in at least three columns and four rows cells, short or `wrapped`."""
    data = [own(row) for row in rows if len(own(row)) > 1]
    values = [cell for row in data for cell in row[1:]]
    if len(data) < 2 or 2 * len(data) < len(rows):
        return False
    led = [len(row) - at for row in data for at, cell in enumerate(row, 1) if _LEADER.search(cell)]
    if 2 * led.count(1) > len(led):  # a table of contents
        return False
    if _is_form(rows):
        return False
    with_figures = sum(any(map(_is_measure, row[1:])) for row in data)
    if 3 * sum(map(_is_measure, values)) >= len(values):
        return with_figures > max(1, len(data) // 3)
    short = sum(len(cell) <= REPEATED / 2 for cell in values)
    filled = sum(map(len, data)) >= 0.6 * len(data) * len(rows[0])
    listed = any(cell.startswith(_BULLETS) for cell in values)
    many = len(rows[0]) > 2 and len(data) > _LEAST_ROWS
    return many and filled and not listed and (wrapped or short >= 0.8 * len(values))


def _is_measure(cell: str) -> bool:
    return is_figure(cell) or _MEASURE.fullmatch(cell) is not None


def _is_form(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether most rows begin with a label that ends with a colon, the first one, too, if it isn't alone."""
    first = [own(row)[0] for row in rows if len(own(row)) > 1]
    return 2 * sum(cell.endswith(":") for cell in first) > len(first) and first[0].endswith(":")


def _are_apart(lines: Sequence[_Line], columns: Sequence[Sequence[float]]) -> bool:
    """Return whether rows have space between them, and the lines of their cells have none: one of each has a label."""
    groups: list[list[list[str]]] = []
    bottom = -math.inf
    for line in lines:
        if line[0].top - bottom >= _WRAPPED * (line[0].bottom - line[0].top):
            groups.append([])
        groups[-1].append(_filled(line, columns))
        bottom = line[0].bottom
    once = all(sum(bool(cells[0]) for cells in group) == 1 for group in groups)
    figures = all(sum(is_figure(cells[at]) for cells in group) < 2 for group in groups for at in range(len(columns)))
    return once and figures and len(groups) > _LEAST_ROWS and max(map(len, groups)) > 1


def _continues(row: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether a line near the row above belongs to it: the rest of a cell that is wrapped."""
    filled = [at for at, cell in enumerate(cells) if cell]
    if any(is_figure(cells[at]) for at in filled):
        # A label of two lines has its values on the second.
        return len(own(row)) == 1 and bool(row[0]) and cells[0][:1].islower()
    if any(not row[at] for at in filled):
        return False
    return cells[0] == "" or cells[0][:1].islower()


# ---- headers


def _written(table: _Table, before: Columns | None) -> tuple[list[str], Columns | None]:
    """Return the paragraphs of a table, and its columns; `before` are those of the table that it may go on with."""
    rows = table.rows
    labelled = [_NAMED_VALUE.search(cell) is not None for cell in own(rows[0])]
    if _is_form(rows) or is_form_of_pairs(rows) or (len(labelled) > 1 and all(labelled)):
        return [f"{TABLE}{each}\n" for each in named_rows(rows, [""] * len(table.sides))], None
    known = _continued(before, table) if before is not None else None
    at, count = _header(table, guess=known is None)
    names = [
        " ".join(dict.fromkeys(row[column] for row in rows[at : at + count] if row[column]))
        for column in range(len(table.sides))
    ]
    titles = [" | ".join(own(row)) for row in rows[:at]]
    lines = [" | ".join(filter(None, names))] if count else []
    if before is not None and count and names == before.names:
        lines = []
    elif known is not None and not count:
        names, titles, lines, at = known, [], [], 0
    paragraphs = list(named_rows(rows[at + count :], names))
    return [f"{TABLE}{each}\n" for each in (*titles, *lines, *paragraphs) if each], Columns(table.sides, names)


def _continued(before: Columns, table: _Table) -> list[str] | None:
    """Return the names of the table's columns if it goes on with the one before."""
    shift = table.sides[0][0] - before.sides[0][0]  # margins of odd and of even pages differ
    known = [(left + shift, right + shift, name) for (left, right), name in zip(*before, strict=True)]
    found = [
        # Figures that end below their name may begin elsewhere.
        next((name for left, right, name in known if min(abs(left - start), abs(right - end)) < _SAME), None)
        for start, end in table.sides
    ]
    if abs(shift) > _MARGIN or 5 * sum(name is not None for name in found) < 4 * len(found):
        return None
    return [name or "" for name in found] if any(found) else None


def _are_numbers(names: Sequence[str], below: Iterable[Sequence[str]]) -> bool:
    """Return whether the names are numbers, of trains or rooms, that count up, and no numbers are below them."""
    counted = all(map(str.isdecimal, names)) and all(int(one) < int(other) for one, other in pairwise(names))
    return counted and len(names) > 1 and not any(cell.isdecimal() for cells in below for cell in cells)


def _header(table: _Table, *, guess: bool) -> tuple[int, int]:
    """Return how many rows are above the header, and how many the header has; 0 if there is none.

    With `guess`, a table of words with lines around its cells has one.
    """
    rows, styles = table.rows, table.styles
    at = next((at for at, row in enumerate(rows) if len(own(row)) > 1 or (own(row) and not row[0])), 0)
    body = Counter(styles[at + 1 :])
    most = max(body.values(), default=0)
    count = 0
    for row, style in zip(rows[at : min(at + _HEADER_ROWS, len(rows) - 1)], styles[at:], strict=False):
        names = own(row)[1:] if row[0] else own(row)
        below = [own(each)[1:] for each in rows[at + count + 1 :]]
        figures = sum(is_value(cell) for cells in below for cell in cells)
        looks = style is not None and 0 < most >= 2 * body[style]  # else rows below it are written so, too
        lacks = 3 * figures >= sum(map(len, below)) > 0 and not any(map(is_value, names))
        numbered = looks and not count and _are_numbers(names, below)
        # Below a row of the header, one that looks otherwise may have units or the last words of names.
        words = count and style != styles[at + count - 1] and row[0] and (rows[at + count - 1][0] or not all(row))
        if not names or not (looks or lacks) or words or (any(map(is_value, names)) and not numbered):
            break
        count += 1
    found = None if count else find_header(rows)
    if found is not None and max(map(len, found.names)) <= REPEATED:
        return found.at, found.rows
    if count and not table.ruled and any(len(cell) > 2 * REPEATED for row in rows[at : at + count] for cell in row):
        return at, 0
    first = rows[at]
    if (
        not count
        and guess
        and table.ruled
        and not begins_with_data(rows[at:])
        and len(set(first)) == len(first) > 2
        and all(first)
        and not any(map(str.isdigit, "".join(first)))
    ):
        return at, int(max(map(len, first)) <= REPEATED)
    return at, count
