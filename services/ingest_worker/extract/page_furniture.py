"""Tells the running headers, footers and page numbers of a document's pages from their text. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from services.ingest_worker.extract.markdown_writer import NUMBER, counted, numbers_pages
from services.ingest_worker.extract.page_layout import TABLE

FOOTNOTE: Final = "\2"  # before a line of one; a control character, which cleaning removes
_EDGE: Final = 4  # lines at the top and at the bottom of a page that may be furniture
_LONGEST: Final = 120  # characters of a running line
_LEAST: Final = 4  # pages that share a running line
_FEW: Final = 6  # pages; each of fewer may end with the same sum
_SHARE: Final = 0.12  # of a document's pages, at least
_MOST: Final = 0.3  # share of a document's pages with a line that is furniture even right above tables
_NUMBER: Final = re.compile(r"\d(?<![\d.,]\d)\d{0,4}(?![\d,]|\.\d)")  # begins with what is seldom there: fast
_DASHES: Final = frozenset("-–— []()")  # around a page's number
_ROMAN: Final = {counted(number, "i"): number for number in range(1, 100)}
_NUMBERED: Final = re.compile(r"(\d{1,4})(?:\s|$)(.*)")
_TENTH: Final = re.compile(r"\n\d{0,3}0\s")  # of ten lines that are numbered
_SUM: Final = re.compile(
    r"[^\W\d]++(?:: ?|(?=.*[.,]\d\d(?!\d)) )(?:[A-Z]{3} |[€$£¥] ?)?[\d.,']*\d(?: [A-Z]{3}| ?[€$£¥])?"
)  # Total: 9
_SENTENCE_END: Final = re.compile(r"[.!?][\"'”’)]*+(?=\s|$)")
_REST: Final = 600  # characters of a sentence that goes on on the next page


class _Place(NamedTuple):
    page: int
    line: int
    key: str  # the line, with `NUMBER` for the number of the page


def letters(text: str) -> str:
    """Return the text's letters and digits, by which a heading is compared with the line that shows it."""
    return "".join(character for character in text.casefold() if character.isalnum())


class Furniture(NamedTuple):
    """The running lines at the top and at the bottom of pages, with `NUMBER` for the number of the page."""

    heads: list[str]
    feet: list[str]


def without_furniture(pages: Sequence[str], headings: Mapping[int, set[str]]) -> tuple[list[str], Furniture]:
    """Return the pages without the lines that run over several of them, and those lines.

    A line that also stands in the middle of pages stays, and one of a table, and a title above the pages of a table.
    Of fewer than four pages, only numbers of pages go, and words beside them; of fewer than six, no sums.
    `headings` are the `letters` of the lines that stay, by page. A page of which half would go stays, as a form does.
    """
    lines = [page.splitlines() for page in pages]
    places: dict[str, list[_Place]] = {}
    for place in _keyed(lines):
        places.setdefault(place.key, []).append(place)
    furniture = Furniture([], [])
    dropped: list[set[int]] = [set() for _ in pages]
    least = max(_least(len(pages)), _SHARE * len(pages))
    often = ((key, some) for key, some in places.items() if len(some) >= least)
    shared = {key: count for key, some in often if (count := len({place.page for place in some})) >= least}
    if len(pages) < _LEAST:
        shared = dict.fromkeys(_numbering(lines, {key: places[key] for key in shared}), len(pages))
    elif len(pages) < _FEW:
        shared = {key: count for key, count in shared.items() if not _SUM.fullmatch(key)}
    anywhere = Counter(" ".join(line.split()) for some in lines for line in some) if shared else Counter[str]()
    for key, count in shared.items():
        some = places[key]
        above = sum(_is_above_table(lines[place.page], place.line) for place in some)
        titles = 2 * above > len(some) and count < _MOST * len(pages)
        if titles or anywhere[key] > 1.2 * len(some):  # also in the middle of pages
            continue
        first = some[0]
        (furniture.heads if 2 * first.line < len(lines[first.page]) else furniture.feet).append(key)
        for page, line, _ in some:
            if letters(lines[page][line]) not in headings.get(page, ()):
                dropped[page].add(line)
    if not any(dropped):
        return list(pages), furniture
    return [
        "\n".join(line for at, line in enumerate(some) if at not in gone or 2 * len(gone) > sum(map(bool, some)))
        for some, gone in zip(lines, dropped, strict=True)
    ], furniture


def without_line_numbers(page: str) -> str:
    """Return the page without the numbers of its lines, as drafts have them: of ten or more lines that are prose."""
    if not _TENTH.search(page):
        return page
    lines = page.splitlines()
    numbered = [_NUMBERED.fullmatch(line) for line in lines]
    start = 0
    for at in range(1, len(lines) + 1):
        last, each = numbered[at - 1], numbered[at] if at < len(lines) else None
        if last and each and int(each[1]) == int(last[1]) + 1:
            continue
        rests = [found[2] for found in numbered[start:at] if found]
        if len(rests) >= 10 and 3 * sum(rest[:1].islower() for rest in rests) >= len(rests) <= len("".join(rests)) / 40:
            lines[start:at] = rests
        start = at
    return "\n".join(lines)


def _least(pages: int) -> int:
    """Return on how many pages a running line stands at least: on all of a few, never on one."""
    return max(2, min(_LEAST, pages))


def _numbering(pages: Sequence[Sequence[str]], shared: Mapping[str, Sequence[_Place]]) -> Iterator[str]:
    """Yield the lines that number pages, and those right beside them that have no digits: other data may be equal."""
    numbers: set[tuple[int, int]] = set()
    for key, places in shared.items():
        before = key.partition(NUMBER)[0].split()
        named = bool(before) and before[-1].isalpha() and numbers_pages(before[-1])
        if NUMBER in key and (named or 2 * NUMBER in key or (numbers_pages(key) and (key != NUMBER or len(pages) > 2))):
            numbers.update((place.page, place.line) for place in places)
            yield key
    for key, places in shared.items():
        if not any(map(str.isdecimal, key)) and all(_near(pages[page], at, page, numbers) for page, at, _ in places):
            yield key


def _near(lines: Sequence[str], at: int, page: int, numbers: AbstractSet[tuple[int, int]]) -> bool:
    """Return whether the next line that isn't blank, above or below, numbers the page."""
    sides = (range(at - 1, -1, -1), range(at + 1, len(lines)))
    return any((page, next((each for each in side if lines[each].strip()), -1)) in numbers for side in sides)


def _keyed(pages: Sequence[Sequence[str]]) -> Iterator[_Place]:
    """Yield the lines at the edges of pages, with `NUMBER` for the number of the page."""
    edges = [{at: _arabic(lines[at]) for at in _edges(lines)} for lines in pages]
    offsets = Counter(
        int(number) - page
        for page, lines in enumerate(edges)
        for number in {number for line in lines.values() for number in _NUMBER.findall(line)}
    )
    often = (offset for offset, count in offsets.items() if count >= _least(len(pages)))
    counted = sorted(often, key=lambda offset: (-offsets[offset], abs(offset - 1)))[:2]  # most count from 1
    for page, lines in enumerate(edges):
        for at, line in lines.items():
            numbers = {page + offset for offset in counted}
            yield _Place(page, at, _key(line, numbers, f"/{len(pages)}") if counted else line)


def _arabic(line: str) -> str:
    """Return the line on one line; if it only numbers a page in small Roman figures, with the number in others."""
    line = " ".join(line.split())
    before, _, last = line.strip("-–— ").rpartition(" ")
    return f"{before} {_ROMAN[last]}".strip() if last in _ROMAN and numbers_pages(before) else line


def _key(line: str, numbers: set[int], of_all: str) -> str:
    """Return the line with `NUMBER` for a page's: beside a word for pages, or at an end of three words or more.

    Before `of_all`, which goes, too, it stands twice.
    """
    for number in _NUMBER.finditer(line):
        sides = line[: number.start()], line[number.end() :]
        if int(number[0]) in numbers and sides[1] == of_all:
            return sides[0] + 2 * NUMBER
        before, after = ([] if _DASHES.issuperset(side) else side.split() for side in sides)
        apart = not (before and after) and (len(before) + len(after) > 2 or numbers_pages(line))
        named = bool(before) and before[-1].isalpha() and numbers_pages(before[-1])
        if int(number[0]) in numbers and (apart or named):
            return line[: number.start()] + NUMBER + line[number.end() :]
    return line


def _edges(lines: Sequence[str]) -> Iterator[int]:
    filled = [at for at, line in enumerate(lines) if line and not line.isspace()]
    for at in [*filled[:_EDGE], *filled[max(_EDGE, len(filled) - _EDGE) :]]:
        if len(lines[at]) <= _LONGEST and not lines[at].startswith(TABLE):
            yield at


def _is_above_table(lines: Sequence[str], at: int) -> bool:
    return next((line.startswith(TABLE) for line in lines[at + 1 :] if line.strip()), False)


def with_whole_sentences(pages: Sequence[str]) -> list[str]:
    """Return the pages; the rest of a sentence that goes on on the next page is moved to the page where it begins.

    Footnotes are at the end of their page, also those at the foot of a column.
    """
    found = list(pages)
    notes = [""] * len(found)
    for at, page in enumerate(pages):
        if FOOTNOTE in page:
            lines = page.split("\n")
            found[at] = "\n".join(line for line in lines if not line.startswith(FOOTNOTE))
            notes[at] = "\n".join(line for line in lines if line.startswith(FOOTNOTE))
    for at in range(len(found) - 1):
        last, rest = found[at].rstrip().rpartition("\n")[2], found[at + 1].lstrip()
        divided = last[-1:] == "-" and last[-2:-1].isalpha()
        goes_on = divided or last[-1:].isalnum() or last[-1:] in (",", "\ufffe")
        if not goes_on or not rest[:1].islower() or last.startswith((TABLE, "#")):
            continue
        end = _SENTENCE_END.search(rest, 0, _REST)
        if end and TABLE not in rest[: end.end()]:
            page = found[at].rstrip()
            found[at] = f"{page[:-1]}\ufffe{rest[: end.end()]}" if divided else f"{page}\n{rest[: end.end()]}"
            found[at + 1] = rest[end.end() :].lstrip()
    return [f"{page.rstrip()}\n{some}" if some else page for page, some in zip(found, notes, strict=True)]
