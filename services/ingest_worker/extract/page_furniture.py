"""Tells the running headers, footers and page numbers of a document's pages from their text. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise
from types import MappingProxyType
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
_ADDRESS: Final = re.compile(rf"[a-z]+:\S+ {2 * NUMBER}")  # below a page that a browser printed
_PRINTED: Final = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4},? \d{1,2}:\d\d\b|file:///")  # what is around it
_LABEL: Final = re.compile(r"\A(?:[^\W\d]{1,12} )?(?:\d{1,3}(?:\.\d{1,3})*+|[IVXL]+)[.:]? ")  # of a chapter
_LETTERS_LABEL: Final = re.compile(r"\A[^\W\d]{0,12}\d{1,6}")  # the same, of which `letters` are left
_ALL: Final = 0.8  # of the pages that have text, at least
_PROSE: Final = 40  # characters of a line, at least; of lists and receipts most have fewer
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


def without_furniture(
    pages: Sequence[str], headings: Mapping[int, set[str]], sections: Mapping[int, set[str]] = MappingProxyType({})
) -> tuple[list[str], Furniture]:
    """Return the pages without the lines that run over several of them, and those lines.

    A line that also stands in the middle of pages stays, and one of a table, and a title above the pages of a table.
    Of fewer than four pages, only numbers of pages go, words beside them, also in the last line of three, a browser's
    time of printing, and lines between the parts of a sentence that goes on; of fewer than six, no sums.
    `headings` are the `letters` of the lines that stay, by page; `sections` those of titles that pages of books show.
    A page of which half would go stays, as a form does.
    """
    lines = [page.splitlines() for page in pages]
    places: dict[str, list[_Place]] = {}
    for place in _keyed(lines):
        places.setdefault(place.key, []).append(place)
    furniture = Furniture([], [])
    dropped: list[set[int]] = [set() for _ in pages]
    least = max(_least(len(pages)), _SHARE * len(pages))
    counts = {key: len({place.page for place in some}) for key, some in places.items() if len(some) >= least - 1}
    # A number that counts with the pages makes up for one of them: odd and even ones may have lines of their own.
    shared = {key: count for key, count in counts.items() if count >= max(2, least - (NUMBER in key))}
    shared = _sure(lines, shared, places) if len(pages) < _FEW else shared
    printed = _printed(shared)
    anywhere = Counter(" ".join(line.split()) for some in lines for line in some) if shared else Counter[str]()
    for key, count in shared.items():
        some = places[key]
        above = sum(_is_above_table(lines[place.page], place.line) for place in some)
        titles = 2 * above > len(some) and count < _MOST * len(pages)
        if titles or anywhere[key] > 1.2 * len(some):  # also in the middle of pages
            continue
        first = some[0]
        if key not in printed:
            (furniture.heads if 2 * first.line < len(lines[first.page]) else furniture.feet).append(key)
        for page, line, _ in some:
            if letters(lines[page][line]) not in headings.get(page, ()):
                dropped[page].add(line)
    for page, line in _of_sections(lines, places, sections):
        dropped[page].add(line)
    if not any(dropped):
        return list(pages), furniture
    return [
        "\n".join(line for at, line in enumerate(some) if at not in gone or 2 * len(gone) > sum(map(bool, some)))
        for some, gone in zip(lines, dropped, strict=True)
    ], furniture


def _sure(
    pages: Sequence[Sequence[str]], shared: Mapping[str, int], places: Mapping[str, Sequence[_Place]]
) -> dict[str, int]:
    """Return those of the lines that all of a few pages share which are no data, and on how many pages they are."""
    if len(pages) >= _LEAST:
        return {key: count for key, count in shared.items() if not _SUM.fullmatch(key)}
    found = {key: places[key] for key in shared}
    return dict.fromkeys(chain(_numbering(pages, found), _tearing(pages, found)), len(pages))


def _of_sections(
    pages: Sequence[Sequence[str]], places: Mapping[str, Sequence[_Place]], sections: Mapping[int, set[str]]
) -> Iterator[tuple[int, int]]:
    """Yield page and line of numbers, and of titles beside them, that stand first or last on a page.

    In books each chapter, or section, has lines of its own, and the number of its first page is elsewhere. Nearly all
    pages have a number then.
    """
    keys = {(place.page, place.line): place.key for some in places.values() for place in some}
    numbered = {page for (page, _), key in keys.items() if NUMBER in key}
    if len(pages) < _LEAST or len(numbered) < _ALL * sum(map(any, pages)):
        return
    with_numbers = (place for place, key in keys.items() if NUMBER in key)
    offsets = Counter(int(each) - page for page, at in with_numbers for each in _NUMBER.findall(pages[page][at]))
    offset = max(offsets, key=offsets.__getitem__, default=0)
    known = set[str]()
    for page, lines in enumerate(pages):
        own = sections.get(page, set[str]())
        known |= {title.lstrip("0123456789") for title in own} - {""}
        filled = [at for at, line in enumerate(lines) if line.strip()]
        for some in (filled[:2], filled[:-3:-1]):
            ends = {at: keys[page, at] for at in some if (page, at) in keys}
            numbers = [at for at, key in ends.items() if key.strip("-–— ") == NUMBER]
            titles = [
                at
                for at, key in ends.items()
                if _names_section(key, known, str(page + offset), beside=bool(numbers))
                # The title of the page itself stays.
                if (here := letters(lines[at])) not in own or sum(letters(line) == here for line in lines) > 1
            ]
            yield from ((page, at) for at in titles)
            yield from ((page, at) for at in numbers if at == some[0] or titles)


def _names_section(key: str, known: AbstractSet[str], number: str, *, beside: bool) -> bool:
    """Return whether a line has a section's title, and its page's number or chapter; or the number is `beside` it."""
    line = key.replace(NUMBER, number)
    bare = line.removeprefix(f"{number} ").removesuffix(f" {number}")
    title = letters(_LABEL.sub("", bare))
    rests = (title[at:] for at in range(1, len(title)) if title[:at] in known)  # a book may have thousands of titles
    chapters = {rest[label.end() :] for rest in rests if (label := _LETTERS_LABEL.match(rest))}
    return (title in known and (beside or bare != line)) or not known.isdisjoint(chapters)


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
        filled = list(filter(None, rests))  # a sheet may have more numbers than lines
        goes_on = 3 * sum(rest[:1].islower() for rest in filled) >= len(filled)
        if len(filled) >= 10 and goes_on and len("".join(filled)) >= _PROSE * len(filled):
            lines[start:at] = rests
        start = at
    return "\n".join(lines)


def _least(pages: int) -> int:
    """Return on how many pages a running line stands at least: on all of a few, never on one."""
    return max(2, min(_LEAST, pages))


def _printed(shared: Collection[str]) -> set[str]:
    """Return the lines with which a browser says when, and from which file, it printed; a log's time is no such."""
    return set(filter(_PRINTED.match, shared)) if any(map(_ADDRESS.fullmatch, shared)) else set()


def _numbering(pages: Sequence[Sequence[str]], shared: Mapping[str, Sequence[_Place]]) -> Iterator[str]:
    """Yield the lines that number pages, and those right beside them that have no digits: other data may be equal."""
    numbers: set[tuple[int, int]] = set()
    printed = _printed(shared)
    for key, places in shared.items():
        before = key.partition(NUMBER)[0].split()
        named = bool(before) and before[-1].isalpha() and numbers_pages(before[-1])
        below = chain.from_iterable(pages[page][at + 1 :] for page, at, _ in places)
        more = len(pages) > 2 and (numbers_pages(key) or (key.endswith(NUMBER) and not "".join(below).strip()))
        if key in printed or (
            NUMBER in key and (named or more or 2 * NUMBER in key or (numbers_pages(key) and key != NUMBER))
        ):
            numbers.update((place.page, place.line) for place in places)
            yield key
    for key, places in shared.items():
        if not any(map(str.isdecimal, key)) and all(_near(pages[page], at, page, numbers) for page, at, _ in places):
            yield key


def _tearing(pages: Sequence[Sequence[str]], shared: Mapping[str, Sequence[_Place]]) -> Iterator[str]:
    """Yield the lines between the end of a page and the head of the next one, where a sentence goes on."""
    data = {key for key in shared if _SUM.fullmatch(key)}
    keys = {(place.page, place.line): key for key, places in shared.items() if key not in data for place in places}
    for page, (above, below) in enumerate(pairwise(pages)):
        texts = ((at, line) for at, line in enumerate(above) if not line.startswith(FOOTNOTE))
        ends = [at for at, line in texts if line.strip() and (page, at) not in keys]
        begins = [at for at, line in enumerate(below) if line.strip() and (page + 1, at) not in keys]
        last = above[ends[-1]].rstrip() if ends else ""
        if begins and len(last) >= _PROSE and _goes_on(last, below[begins[0]].lstrip()):
            feet, heads = range(ends[-1] + 1, len(above)), range(begins[0])
            yield from (keys[page, at] for at in feet if (page, at) in keys)
            yield from (keys[page + 1, at] for at in heads if (page + 1, at) in keys)


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
    of_all = re.compile(rf" ?(?:/|[^\W\d]{{1,3}}) ?{len(pages)}")
    for page, lines in enumerate(edges):
        for at, line in lines.items():
            numbers = {page + offset for offset in counted}
            yield _Place(page, at, _key(line, numbers, of_all) if counted else line)


def _arabic(line: str) -> str:
    """Return the line on one line; small Roman figures at one of its ends, as numbers of pages are, in others."""
    words = line.split()
    bare = " ".join(words).strip("-–— ")
    before, _, last = bare.rpartition(" ")
    first, _, behind = bare.partition(" ")
    if last in _ROMAN:
        return f"{before} {_ROMAN[last]}".strip()
    return f"{_ROMAN[first]} {behind}" if first in _ROMAN else " ".join(words)


def _key(line: str, numbers: set[int], of_all: re.Pattern[str]) -> str:
    """Return the line with `NUMBER` for a page's: beside a word for pages, or at an end of three words or more.

    Before `of_all`, as `/9` and ` of 9`, which goes, too, it stands twice.
    """
    for number in _NUMBER.finditer(line):
        sides = line[: number.start()], line[number.end() :]
        if int(number[0]) in numbers and of_all.fullmatch(sides[1]):
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


def _goes_on(last: str, rest: str) -> bool:
    """Return whether a page's last line is within a sentence that goes on at the head of the next page."""
    divided = last[-1:] == "-" and last[-2:-1].isalpha()
    open_ = divided or last[-1:].isalnum() or last[-1:] in (",", "\ufffe")
    return open_ and rest[:1].islower() and not last.startswith((TABLE, "#"))


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
        if not _goes_on(last, rest):
            continue
        divided = last[-1:] == "-"
        end = _SENTENCE_END.search(rest, 0, _REST)
        if end and TABLE not in rest[: end.end()]:
            page = found[at].rstrip()
            found[at] = f"{page[:-1]}\ufffe{rest[: end.end()]}" if divided else f"{page}\n{rest[: end.end()]}"
            found[at + 1] = rest[end.end() :].lstrip()
    return [f"{page.rstrip()}\n{some}" if some else page for page, some in zip(found, notes, strict=True)]
