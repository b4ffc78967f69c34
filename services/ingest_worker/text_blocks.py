"""Finds the blocks of a text: headings, paragraphs, lists, tables and code. One pass, in linear time on any input."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

Kind = Literal["heading", "paragraph", "list", "table", "code", "record"]  # record: a row on a line of its own

_TITLE_CHARACTERS = 120  # a "heading" of a megabyte must not be repeated in every chunk's section

# All quantifiers are possessive: nothing is tried twice, so no match takes quadratic time.
_BLANK_LINES = re.compile(r"(?:[^\S\n]*+\n)++")
_PARAGRAPH_GAP = re.compile(r"\n(?:[^\S\n]*+\n)++")
_OPENING = re.compile(
    r"(?P<indent>[ \t]*+)(?:(?P<fence>`{3,}+|~{3,}+)|(?P<hashes>\#{1,6}+)(?![^\s])"
    r"|(?P<bullet>[-*+]|\d{1,9}+[.)])(?=[ \t])|(?P<bar>(?:>[ \t]*+)*+\|))?"  # a table may stand in a quotation
)
_FENCES = {
    "`": re.compile(r"^[ \t]*+(`{3,}+)[ \t]*+$", re.MULTILINE),
    "~": re.compile(r"^[ \t]*+(~{3,}+)[ \t]*+$", re.MULTILINE),
}
_DELIMITER_ROW = re.compile(r"[> \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$", re.MULTILINE)
_UNDERLINE = re.compile(r" {0,3}(=++|-++)[ \t]*+$", re.MULTILINE)
# Wiki headings: more signs mean a deeper level; some exports put blanks between the signs.
_EQUALS = re.compile(r"[ \t]*+(=(?:[ \t]?=){0,5})[ \t]++(?P<title>[^\s=](?:[^\n]*[^\s=])?)[ \t]++\1[ \t]*+$")
_ROW = re.compile(r"[^\n;:]{1,80}+: [^\n;]*+(?:;(?! )[^\n;]*+)*+; (?:[^\n;:]|:(?=\d)){1,80}+: ")
_HEADING_LINE = 200  # characters, at most
_TRAILING_HASHES = re.compile(r"(?:^|[ \t])#++$|(?<![ \t])[ \t]*+\{#[^{}]*+\}$")


class TextBlock(NamedTuple):
    """A stretch of text with one structure; neither end is white space (code keeps its indent)."""

    start: int
    end: int
    kind: Kind
    level: int = 0  # 1 to 6 for a heading
    title: str = ""  # a heading's text
    opens_page: bool = False


def blocks(text: str, *, structured: bool, pages: Sequence[int] = ()) -> Iterator[TextBlock]:
    """Yield the blocks in reading order; between them there is only white space.

    `pages` are the offsets at which pages start, ascending; no block reaches over one.
    """
    borders = [0, *(offset for offset in pages if 0 < offset < len(text)), len(text)]
    scan = _markdown if structured else _plain
    for start, end in pairwise(borders):
        first = start > 0
        for block in scan(text, start, end):
            yield block._replace(opens_page=True) if first else block
            first = False


def first_heading(text: str) -> str | None:
    """Return the text of the first heading that has one."""
    return next((block.title for block in blocks(text, structured=True) if block.title), None)


def _plain(text: str, start: int, end: int) -> Iterator[TextBlock]:
    for gap in _PARAGRAPH_GAP.finditer(text, start, end):
        yield from _trimmed(text, start, gap.start(), "paragraph")
        start = gap.end()
    yield from _trimmed(text, start, end, "paragraph")


def _trimmed(text: str, start: int, end: int, kind: Kind) -> Iterator[TextBlock]:
    piece = text[start:end]
    end = start + len(piece.rstrip())
    if end > start:
        if kind == "paragraph" and _is_record(text, start, end):
            kind = "record"
        yield TextBlock(start if kind == "code" else end - len(piece.strip()), end, kind)


def _is_record(text: str, start: int, end: int) -> bool:
    """Return whether a paragraph is a row: `name: value; name: value`, or `value | value`."""
    if text.find("\n", start, end) >= 0:
        return False
    return text.find(" | ", start, end) >= 0 or (
        text.find("; ", start, end) >= 0 and _ROW.match(text, start, end) is not None
    )


def _markdown(text: str, start: int, end: int) -> Iterator[TextBlock]:
    at = start
    while at < end:
        if blank := _BLANK_LINES.match(text, at, end):
            at = blank.end()
            continue
        stop = _line_end(text, at, end)
        opening = _opening(text, at, end)
        if _fence(text, opening, stop):
            after = _after_fence(text, opening, stop, end)
            yield from _trimmed(text, at, after, "code")
        elif opening["hashes"] and len(opening["indent"]) < 4:
            after = stop
            start = opening.start("hashes")
            block = TextBlock(start, start + len(text[start:stop].rstrip()), "heading", len(opening["hashes"]))
            yield block._replace(title=_title(text, opening.end(), stop))
        elif equals := _wiki_heading(text, at, stop):
            after = stop
            start, end_ = at + len(text[at:stop]) - len(text[at:stop].lstrip()), at + len(text[at:stop].rstrip())
            yield TextBlock(start, end_, "heading", equals[1].count("="), " ".join(equals["title"].split()))
        elif opening["bullet"]:
            after = _after_list(text, stop, end)
            yield from _trimmed(text, at, after, "list")
        elif _table(text, at, stop, end, opening):
            after = _after_table(text, stop, end)
            yield from _trimmed(text, at, after, "table")
        else:
            underline = _UNDERLINE.match(text, stop + 1, end) if stop < end else None
            if underline:
                after = underline.end()
                block = TextBlock(opening.end("indent"), after, "heading", 1 if underline[1][0] == "=" else 2)
                yield block._replace(title=_title(text, at, stop))
            else:
                after = _after_paragraph(text, stop, end)
                yield from _trimmed(text, at, after, "paragraph")
        at = after + 1


def _opening(text: str, at: int, end: int) -> re.Match[str]:
    match = _OPENING.match(text, at, end)
    assert match is not None  # every part is optional
    return match


def _line_end(text: str, at: int, end: int) -> int:
    stop = text.find("\n", at, end)
    return end if stop < 0 else stop


def _title(text: str, start: int, stop: int) -> str:
    line = text[start : min(stop, start + 4 * _TITLE_CHARACTERS)].strip()
    return " ".join(_TRAILING_HASHES.sub("", line).split())[:_TITLE_CHARACTERS]


def _fence(text: str, opening: re.Match[str], stop: int) -> bool:
    fence = opening["fence"]
    # Backticks later in the line make it inline code.
    return bool(fence) and (fence[0] == "~" or text.find("`", opening.end(), stop) < 0)


def _after_fence(text: str, opening: re.Match[str], stop: int, end: int) -> int:
    fence = opening["fence"]
    for closing in _FENCES[fence[0]].finditer(text, min(stop + 1, end), end):
        if len(closing[1]) >= len(fence):
            return closing.end()
    return end


def _after_list(text: str, stop: int, end: int) -> int:
    while stop < end:
        at = stop + 1
        blank = _BLANK_LINES.match(text, at, end)
        if blank:
            at = blank.end()
        if at >= end:
            break
        opening = _opening(text, at, end)
        line_end = _line_end(text, at, end)
        indented = len(opening["indent"]) >= 2 or "\t" in opening["indent"]
        fence = _fence(text, opening, line_end)
        if not indented and (opening["hashes"] or fence or (blank and not opening["bullet"])):
            break
        if opening["bar"] and _DELIMITER_ROW.match(text, line_end + 1, end):  # a table within the list
            break
        stop = _after_fence(text, opening, line_end, end) if fence else line_end
    return stop


def _wiki_heading(text: str, at: int, stop: int) -> re.Match[str] | None:
    return _EQUALS.match(text, at, stop) if stop - at <= _HEADING_LINE and "=" in text[at : at + 8] else None


def _table(text: str, at: int, stop: int, end: int, opening: re.Match[str]) -> bool:
    if opening["bar"]:
        return True
    if text.find("|", at, stop) < 0 or stop >= end:
        return False
    row = _DELIMITER_ROW.match(text, stop + 1, end)
    return row is not None and "|" in row[0]


def _after_table(text: str, stop: int, end: int) -> int:
    while stop < end:
        line_end = _line_end(text, stop + 1, end)
        if text.find("|", stop + 1, line_end) < 0:
            break
        stop = line_end
    return stop


def _after_paragraph(text: str, stop: int, end: int) -> int:
    while stop < end:
        at = stop + 1
        opening = _opening(text, at, end)
        line_end = _line_end(text, at, end)
        if (
            opening["hashes"]
            or opening["bullet"]
            or opening["bar"]
            or _wiki_heading(text, at, line_end)
            or _fence(text, opening, line_end)
            or _BLANK_LINES.match(text, at, end)
        ):
            break
        stop = line_end
    return stop
