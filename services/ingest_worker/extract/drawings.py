"""Extracts the drawings of Office files: text of shapes and diagrams, charts as tables."""

import datetime as dt
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.markdown_writer import counted, raised
from services.ingest_worker.extract.number_formats import number_format
from services.ingest_worker.extract.rows import Cell, number, spread, table
from services.ingest_worker.extract.safe_xml import attribute, parsed, reference, tag, whole, words
from services.ingest_worker.extract.sheets import shown
from services.ingest_worker.extract.symbols import in_font

if TYPE_CHECKING:
    from lxml.etree import _Element

Part = Callable[[str], bytes | None]  # reads the part that an element refers to by an id

_TITLES = frozenset({"title", "ctrTitle"})
_FRAME = frozenset({"sldNum", "dt", "ftr", "hdr"})  # page numbers, dates, headers: the same on each slide
_KINDS = {"arabic": "1", "alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I", "circle": "①", "ea1": "一"}
_ON = frozenset({"1", "true"})
_SIGNS = frozenset("àáâßèJKL")  # what Office writes for --> or :)
_SHAPES = frozenset({"sp", "grpSp", "graphicFrame", "pic"})
_FRAMES = ("{*}spPr/{*}xfrm", "{*}grpSpPr/{*}xfrm", "{*}xfrm")
_PLACE = re.compile(r"-?\d{1,15}")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,20})?")
_MEANT = 10  # decimals, with the point
_LITERAL = re.compile(r"\"[^\"]*+\"|\[[^\[\]]*+\]|\\.")  # of a number's format
_DATED = re.compile(r"(?i)[yd]|mmm")
_DAY_0, _LAST_DAY, _DAYS_TO_1904 = dt.datetime.fromordinal(693_594), 2_958_466, 1462  # dates are counted in days
_CACHES = ("{*}strCache", "{*}numCache", "{*}strLit", "{*}numLit")
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
        about = element.iterfind("*/{*}cNvPr") if name in _SHAPES else ()
        if name == "Fallback" or any(each.get("hidden") in _ON for each in about):
            continue
        if name == "tbl":
            says = element.find("{*}tblPr")
            headed = (says is not None and says.get("firstRow") in _ON) or _is_bold(element.find("{*}tr"))
            yield table(spread(map(_cells, element.iter("{*}tr"))), headed=headed), False
        elif name in ("chart", "relIds") and (drawn := referred(element, part)):
            yield drawn, False
        elif name in ("txBody", "t") and (lines := list(_paragraphs(element))):
            kind = _place(element)
            if kind not in _FRAME:
                title = titles and kind in _TITLES
                yield ("# " + " ".join(lines) if title else "\n".join(lines)), title
        else:
            ahead.extend(reversed(in_reading_order([child for child in element if tag(child)], _box)))


def _is_bold(row: "_Element | None") -> bool:
    runs = [] if row is None else [run for run in row.iter("{*}r") if words(run)]
    return bool(runs) and all(attribute(run.find("{*}rPr"), "b") in _ON for run in runs)


def _cells(row: "_Element") -> Iterator[Cell]:
    for cell in row.iterfind("{*}tc"):
        if cell.get("hMerge") not in _ON and cell.get("vMerge") not in _ON:  # else another cell covers it
            across, down = (whole(cell.get(name), 1) for name in ("gridSpan", "rowSpan"))
            yield Cell("\n".join(_paragraphs(cell)), across, down)


def in_reading_order(elements: "list[_Element]", box: "Callable[[_Element], Box | None]") -> "list[_Element]":
    """Return a slide's shapes from top to bottom, and side by side from left to right; others in their order.

    A shape without a position of its own has its layout's, such as the main text: it keeps its place before the others.
    """
    boxes = [(box(element), element) for element in elements]
    placed = sorted(((at, element) for at, element in boxes if at is not None), key=lambda each: each[0])
    rows: list[list[tuple[Box, _Element]]] = []
    for at, element in placed:
        first = rows[-1][0][0] if rows else None
        if first is not None and first.top + first.height - at.top > min(first.height, at.height) / 2:
            rows[-1].append((at, element))
        else:
            rows.append([(at, element)])
    beside = (element for row in rows for _, element in sorted(row, key=lambda each: each[0].left))
    return [*(element for at, element in boxes if at is None), *beside]


class Box(NamedTuple):
    """Where a shape is, in any unit."""

    top: float
    left: float
    height: float


def _box(element: "_Element") -> Box | None:
    """Return where a shape is; None for an element that isn't a shape, or that its layout places."""
    frame = next((each for path in _FRAMES if (each := element.find(path)) is not None), None)
    offset = None if frame is None or tag(element) not in _SHAPES else frame.find("{*}off")
    if frame is None or offset is None:
        return None
    extent = frame.find("{*}ext")
    places = offset.get("y", ""), offset.get("x", ""), "0" if extent is None else extent.get("cy", "")
    return Box(*map(int, places)) if all(map(_PLACE.fullmatch, places)) else None


def feet(root: "_Element") -> Iterator[str]:
    """Yield the footers of a slide, and a date that was typed: one that is a field is the day on which it is opened."""
    for body in root.iter("{*}txBody"):
        kind = _place(body)
        if kind == "ftr" or (kind == "dt" and body.find(".//{*}fld") is None):
            yield "\n".join(_paragraphs(body))


def _place(body: "_Element") -> str:
    """Return the type of the placeholder that the shape fills, or '' for none."""
    holder = body.getparent()
    place = None if holder is None else holder.find(".//{*}nvPr/{*}ph")
    return "" if place is None else place.get("type", "body")


def _paragraphs(body: "_Element") -> Iterator[str]:
    counts: dict[int, tuple[tuple[str, int], int]] = {}  # of numbered paragraphs, by level, with their kind and start
    for paragraph in body.iter("{*}p"):
        text = ""
        for piece in paragraph.iter("{*}t", "{*}br", "{*}tab", "{*}oMath"):
            text += _shown(piece, text)
        line = " ".join(text.split())
        if line:
            says = next(iter(paragraph.iterfind("{*}pPr")), None)
            depth = 0 if says is None else whole(says.get("lvl"))
            numbers = None if says is None else says.find("{*}buAutoNum")
            counts = {level: count for level, count in counts.items() if level < depth + (numbers is not None)}
            named = "" if numbers is None else numbers.get("type", "")
            kind = next((sign for name, sign in _KINDS.items() if named.startswith(name)), "")
            if numbers is not None and kind:
                list_of = named, whole(numbers.get("startAt"), 1)
                before, number = counts.get(depth, ((), 0))
                counts[depth] = list_of, number + 1 if before == list_of else list_of[1]
                opens, closes = "(" * named.endswith("Both"), ")" if "Paren" in named else "." * (kind != "①")
                yield f"{'  ' * min(depth, 8)}{opens}{counted(counts[depth][1], kind)}{closes} {line}"
            else:
                yield f"{'  ' * min(depth, 8)}- {line}" if depth else line


def _shown(piece: "_Element", before: str) -> str:
    name, run = tag(piece), piece.getparent()
    if name != "t":
        return equation(piece) if name == "oMath" else " "
    if "/math}" in str(piece.tag):  # within an equation
        return ""
    says = None if run is None else run.find("{*}rPr")
    text = piece.text or ""
    if says is None or not text.strip():
        return text
    # The font of signs alone is also named on words: programs leave it on what is typed behind an arrow.
    alone = text.strip() in _SIGNS or all("\uf000" <= sign <= "\uf0ff" for sign in text.strip())
    for font in ("sym", "latin") if alone else ("latin",):
        text = in_font(text, attribute(says.find(f"{{*}}{font}"), "typeface"))
    if says.get("strike", "noStrike") != "noStrike":
        return f"~~{text}~~"
    return raised(text, before) if says.get("baseline", "0").strip("0%").isdecimal() else text


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
    titles = [line for title in root.iter("{*}title") if (line := " ".join(_paragraphs(title)) or _called(title))]
    tables: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for series in root.iter("{*}ser"):
        categories = _points(series.find("{*}cat"), series.find("{*}xVal"))
        values = _points(series.find("{*}val"), series.find("{*}yVal"))
        tables.setdefault(tuple(categories), []).append((_called(series), values))
    return "\n\n".join(filter(None, ["\n".join(titles), *(_values(*each) for each in tables.items())]))


def _called(element: "_Element") -> str:
    """Return the name that an element of a chart takes from cells."""
    name = element.find("{*}tx")
    return "" if name is None else " ".join(words(each) for each in name.iter("{*}v"))


def _values(categories: tuple[str, ...], columns: list[tuple[str, list[str]]]) -> str:
    count = max(map(len, [categories, *(values for _, values in columns)]))
    shown = [categories, *(values for _, values in columns)]
    rows = ([each[at] if at < len(each) else "" for each in shown] for at in range(count if count < _POINTS else 0))
    return table([["", *(name for name, _ in columns)], *rows])


def _points(*sources: "_Element | None") -> list[str]:
    """Return the points of the first source that exists, ordered by index, each with the names of its groups."""
    source = next((each for each in sources if each is not None), None)
    caches: list[_Element | None] = (
        [] if source is None else [*source.iter("{*}lvl")] or [*islice(source.iter(*_CACHES), 1)]
    )
    points, *groups = map(_ordered, caches or [None])
    for names in groups:  # each name stands once, at the first point of its group
        name = ""
        for at, point in enumerate(points):
            name = (names[at] if at < len(names) else "") or name
            points[at] = f"{name} {point}".strip()
    return points


def _ordered(cache: "_Element | None") -> list[str]:
    found: dict[int, str] = {}
    code = "" if cache is None else cache.findtext("{*}formatCode", "")
    later = _DAYS_TO_1904 if cache is not None and attribute(cache.getroottree().find("{*}date1904")) in _ON else 0
    for point in () if cache is None else cache.iterfind("{*}pt"):
        found[whole(point.get("idx"))] = _figure(words(point), point.get("formatCode", code), later)
    return [found.get(at, "") for at in range(min(max(found, default=-1), _POINTS) + 1)]


def _figure(text: str, code: str, later: int) -> str:
    """Return a number as its format says: with its unit, as a percentage, as a date; other text as it is.

    Dates are counted from `later` days after the usual one.
    """
    read = _NUMBER.fullmatch(text)
    if read is None:
        return text
    value, form = float(text), number_format(code)
    if form is None and 0 < value + later < _LAST_DAY and _DATED.search(_LITERAL.sub("", code)):
        return shown(_DAY_0 + dt.timedelta(days=later, seconds=round(value * 86_400)))
    if form is None:
        return number(value) if len(read[1] or "") > _MEANT else text  # stored with an error of rounding
    return form.shown(value)
