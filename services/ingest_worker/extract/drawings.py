"""Extracts the drawings of Office files: text of shapes and diagrams, charts as tables."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from services.ingest_worker.extract.markup import parsed, reference, tag, words
from services.ingest_worker.extract.rows import number, table

if TYPE_CHECKING:
    from lxml.etree import _Element

Part = Callable[[str], bytes | None]  # reads the part that an element refers to by an id

_TITLES = frozenset({"title", "ctrTitle"})
_FRAME = frozenset({"sldNum", "dt", "ftr", "hdr"})  # page numbers, dates, headers: the same on each slide
_LONG_NUMBER = re.compile(r"-?\d{1,15}\.\d{10,20}")
_POINTS = 1_000  # points of a chart; a chart with more is a curve, useless as a table


def shapes(root: "_Element", part: Part, *, titles: bool = False) -> Iterator[str]:
    """Yield the text of every shape, table, chart and diagram. Of alternative contents, only the first is read.

    With `titles`, the titles of slides become headings and come first.
    """
    found = [each for each in _shapes(root, part, titles=titles) if each[0]]
    yield from (text for text, title in found if title)
    yield from (text for text, title in found if not title)


def _shapes(root: "_Element", part: Part, *, titles: bool) -> "Iterator[tuple[str, bool]]":
    ahead = [root]
    while ahead:
        element = ahead.pop()
        name = tag(element)
        if name == "Fallback":
            continue
        if name == "tbl":
            cells = [["\n".join(_paragraphs(cell)) for cell in row.iterfind("{*}tc")] for row in element.iter("{*}tr")]
            yield table(cells), False
        elif name in ("chart", "relIds") and (drawn := referred(element, part)):
            yield drawn, False
        elif name in ("txBody", "t") and (lines := list(_paragraphs(element))):
            kind = _place(element)
            if kind not in _FRAME:
                title = titles and kind in _TITLES
                yield ("# " + " ".join(lines) if title else "\n".join(lines)), title
        else:
            ahead.extend(child for child in reversed(element) if tag(child))


def feet(root: "_Element") -> Iterator[str]:
    """Yield the footers of a slide."""
    for body in root.iter("{*}txBody"):
        if _place(body) == "ftr":
            yield "\n".join(_paragraphs(body))


def _place(body: "_Element") -> str:
    """Return the type of the placeholder that the shape fills, or '' for none."""
    holder = body.getparent()
    place = None if holder is None else holder.find(".//{*}nvPr/{*}ph")
    return "" if place is None else place.get("type", "body")


def _paragraphs(body: "_Element") -> Iterator[str]:
    for paragraph in body.iter("{*}p"):
        pieces = paragraph.iter("{*}t", "{*}br", "{*}tab")
        line = " ".join("".join(" " if tag(piece) in ("br", "tab") else piece.text or "" for piece in pieces).split())
        if line:
            says = next(iter(paragraph.iterfind("{*}pPr")), None)
            level = "0" if says is None else says.get("lvl", "0")
            depth = int(level) if level.isdecimal() and len(level) < 3 else 0
            yield f"{'  ' * min(depth, 8)}- {line}" if depth else line


def referred(element: "_Element", part: Part) -> str:
    """Return the text of a chart or diagram that a drawing refers to; '' if it can't be read."""
    wanted = "id" if tag(element) == "chart" else "dm"
    of = reference(element, wanted)
    source = part(of) if of else None
    root = None if source is None else parsed(source)
    if root is None:
        return ""
    return (
        _chart(root) if wanted == "id" else "\n".join(text for text, _ in _shapes(root, lambda _: None, titles=False))
    )


def _chart(root: "_Element") -> str:
    """Return the titles of a chart and its axes, and its values: a row per category, a column per series."""
    titles = [line for title in root.iter("{*}title") if (line := " ".join(_paragraphs(title)))]
    tables: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for series in root.iter("{*}ser"):
        categories = _points(series.find("{*}cat"), series.find("{*}xVal"))
        values = _points(series.find("{*}val"), series.find("{*}yVal"))
        name = series.find("{*}tx")
        called = "" if name is None else " ".join(words(each) for each in name.iter("{*}v"))
        tables.setdefault(tuple(categories), []).append((called, values))
    return "\n\n".join(filter(None, ["\n".join(titles), *(_values(*each) for each in tables.items())]))


def _values(categories: tuple[str, ...], columns: list[tuple[str, list[str]]]) -> str:
    count = max(map(len, [categories, *(values for _, values in columns)]))
    shown = [categories, *(values for _, values in columns)]
    rows = ([each[at] if at < len(each) else "" for each in shown] for at in range(count if count < _POINTS else 0))
    return table([["", *(name for name, _ in columns)], *rows])


def _value(text: str) -> str:
    return number(float(text)) if _LONG_NUMBER.fullmatch(text) else text


def _points(*sources: "_Element | None") -> list[str]:
    """Return the points of the first source that exists, ordered by index; of several levels, the innermost."""
    source = next((each for each in sources if each is not None), None)
    cache = (
        None
        if source is None
        else next(source.iter("{*}lvl", "{*}strCache", "{*}numCache", "{*}strLit", "{*}numLit"), None)
    )
    if cache is not None and tag(cache) == "strCache":
        cache = next(cache.iter("{*}lvl"), cache)
    found: dict[int, str] = {}
    for point in () if cache is None else cache.iterfind("{*}pt"):
        at = point.get("idx", "")
        if at.isdecimal() and len(at) < 6:
            found[int(at)] = _value(words(point))
    return [found.get(at, "") for at in range(min(max(found, default=-1), _POINTS) + 1)]
