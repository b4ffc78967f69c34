"""Reads OpenDocument spreadsheets."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from services.ingest_worker.extract import sheets
from services.ingest_worker.extract.archive import ADDRESS, opened, part
from services.ingest_worker.extract.embedded_files import pictures
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.formats.odt import GAP, HREF, TABLE, contained, described, drawings, holds, pictured
from services.ingest_worker.extract.number_formats import NumberFormat
from services.ingest_worker.extract.safe_xml import attribute, parsed, serialized, tag, whole, words
from services.ingest_worker.extract.sheet_views import SheetView, linked

if TYPE_CHECKING:
    from lxml.etree import _Element

_CONTENT, _SETTINGS = "content.xml", "settings.xml"
_TYPE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
# What only some files have; the others aren't looked at a second time.
_SIGN = re.compile(
    rb"\"collapse\"|\"percentage\"|\"currency\"|min-integer-digits=\"0*+[2-9]|<number:text|table:formula=|<text:a\s|-spanned=\"(?!1\")"
    rb"|<table:table-header-rows|display-filter-buttons=\"true|VerticalSplitMode\"[^<>]{0,200}+>2<"
)
_FAR = re.compile(rb"number-rows-repeated=\"\d{5,}")
_BEHIND = re.compile(_FAR.pattern + rb"|value-type=|</table:table>")
_SHOWN = re.compile(r"([^\d]{0,20})([\d.,'\s]{1,60}?)([^\d]{0,20})")
_MOST = 1_000  # repetitions of a cell or row that are looked at
_MOST_ROWS = 100  # of a row with a number in it
_ROWS, _COLUMNS = 1_048_576, 16_384  # of the largest sheet
_PLACE = re.compile(r"\$?(.{1,200}?)\.\$?[A-Z]{1,3}\$?(\d{1,7}):")  # where a range begins
_BUTTONS, _HEADED = f"{TABLE}display-filter-buttons", f"{TABLE}contains-header"
_GROUPS = ("table-row-group", "table-column-group")
_NUMBERS = ("float", "percentage", "currency")


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet and a paragraph per row, with title, description, language and dates.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    data = contained(data)
    says = described(data, hints)
    drawn: dict[str, str] = {}
    with opened(data, hints) as archive:
        stored, unread = part(archive, _CONTENT, hints), [*pictures(pictured(archive))]
        content = _moved_together(stored)
        shown = part(archive, _SETTINGS, hints) if _SETTINGS in archive.namelist() else stored
        if b"<draw:" in content and (root := parsed(content)) is not None:
            drawn, notes = drawings(root, archive, hints)
            unread += notes
            data = contained(serialized(root))  # calamine reads what is drawn in a cell as its value
        elif content is not stored or GAP.search(content) or "mimetype" not in archive.namelist():
            data = contained(content)
    views = _views(content, shown) if _SIGN.search(content) or _SIGN.search(shown) else {}
    read = sheets.read_as("ods", data, hints, says, drawn=drawn, views=views)
    return msgspec.structs.replace(read, notes=(*read.notes, *unread))


def _moved_together(content: bytes) -> bytes:
    """Return the content with one blank row for many before a cell: calamine keeps a place for each cell between."""
    sign = _FAR.search(content)
    while sign is not None and sign[0] != b"value-type=":
        following = _BEHIND if sign[0].startswith(b"number") else _FAR
        sign = following.search(content, sign.end())
    if sign is None:  # most sheets end in many blank rows
        return content
    root = parsed(content)
    for row in () if root is None else root.iter(f"{TABLE}table-row"):
        if _count(row, "rows") > _MOST and not any(_cells(row)):
            row.set(f"{TABLE}number-rows-repeated", "1")
    return content if root is None else serialized(root)


def _views(content: bytes, shown: bytes) -> dict[str, SheetView]:
    """Return the views of the sheets by name. What a sheet keeps in view stands beside them, where it is `shown`."""
    root = parsed(content)
    tables = () if root is None else root.iterfind("{*}body/{*}spreadsheet/{*}table")
    views = {table.get(f"{TABLE}name", ""): _view(table) for table in tables}
    for each in () if root is None else root.iter(f"{TABLE}database-range"):
        found = _PLACE.match(each.get(f"{TABLE}target-range-address", ""))
        name = found[1].strip("'").replace("''", "'") if found else ""
        if found and name in views and each.get(_BUTTONS) == "true" and each.get(_HEADED) != "false":
            views[name] = views[name]._replace(heads=views[name].heads | {int(found[2]) - 1})
    settings = parsed(shown)
    for each in () if settings is None else settings.iter("{*}config-item-map-entry"):
        says = {attribute(item, "name"): words(item) for item in each.iterfind("{*}config-item")}
        name, row = attribute(each, "name"), whole(says.get("VerticalSplitPosition")) - 1
        if name in views and says.get("VerticalSplitMode") == "2":
            views[name] = views[name]._replace(heads=views[name].heads | {row})
    return views


def _view(table: "_Element") -> SheetView:
    hidden_rows: set[int] = set()
    hidden_columns: set[int] = set()
    formats: dict[int, dict[int, NumberFormat]] = {}
    beside: dict[int, dict[int, str]] = {}
    merged: list[tuple[tuple[int, int], tuple[int, int]]] = []
    heads = frozenset[int]()
    formulas = at = column = 0
    by_column = cache(_by_column)  # the rows of a sheet are mostly alike
    for each in table.iter(f"{TABLE}table-column", f"{TABLE}table-row"):
        parent = each.getparent()
        within = "" if parent is None else tag(parent)
        hidden = each.get(f"{TABLE}visibility") == "collapse" and within not in _GROUPS
        if tag(each) == "table-column":
            count = _count(each, "columns")
            if hidden:
                hidden_columns.update(range(column, min(column + min(count, _MOST), _COLUMNS)))
            column += count
            continue
        count = _count(each, "rows")
        heads = frozenset({at}) if within == "table-header-rows" else heads
        if hidden:
            hidden_rows.update(range(at, min(at + min(count, _MOST), _ROWS)))
        shapes: list[tuple[range, NumberFormat]] = []
        for places, cell in _cells(each):
            if cell.get(f"{TABLE}formula") is not None and cell.get(_TYPE) is None:
                formulas += count * len(places)
            merged += _merged(cell, at, places.start)
            if text := _address(cell) or _error(cell):
                beside.setdefault(at, {})[places.start] = text
            if (shape := _format(cell)) is not None:
                shapes.append((places, shape))
        if shapes:
            formats |= dict.fromkeys(range(at, at + min(count, _MOST_ROWS)), by_column(tuple(shapes)))
        at += count
    return SheetView(formats, frozenset(hidden_rows), frozenset(hidden_columns), formulas, beside, merged, heads)


def _by_column(shapes: tuple[tuple[range, NumberFormat], ...]) -> dict[int, NumberFormat]:
    return {column: shape for places, shape in shapes for column in places}


def _merged(cell: "_Element", row: int, column: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    down, across = (whole(cell.get(f"{TABLE}number-{what}-spanned"), 1) for what in ("rows", "columns"))
    if max(across, down) > 1:
        yield (row, column), (row + down - 1, column + across - 1)


def _cells(row: "_Element") -> Iterator[tuple[range, "_Element"]]:
    """Yield the columns of the row's cells; those of a repeated cell together."""
    column = 0
    for cell in row:
        count = _count(cell, "columns")
        if cell.get(_TYPE) is not None or cell.get(f"{TABLE}formula") is not None:
            yield range(column, min(column + min(count, _MOST), _COLUMNS)), cell
        column += count


def _count(element: "_Element", what: str) -> int:
    return whole(element.get(f"{TABLE}number-{what}-repeated"), 1)


def _address(cell: "_Element") -> str:
    link = next(cell.iter("{*}a"), None)
    address = "" if link is None else link.get(HREF, "").strip()
    return address if ADDRESS.fullmatch(address) else linked(cell.get(f"{TABLE}formula", ""))


def _error(cell: "_Element") -> str:
    return (
        words(cell) if any(str(name).endswith("}value-type") and kind == "error" for name, kind in cell.items()) else ""
    )


def _format(cell: "_Element") -> NumberFormat | None:
    """Return what is around the number in the cell's text, and its leading zeros."""
    kind = cell.get(_TYPE)
    found = _SHOWN.fullmatch(words(cell)) if kind in _NUMBERS else None
    if found is None:
        return None
    before, digits, after = found[1].lstrip("-( "), found[2].strip(), found[3].rstrip(") ")
    if found[2][-1:].isspace() and after:
        after = f" {after}"
    zeros = len(digits) if digits.isdecimal() and digits.startswith("0") and len(digits) > 1 else 0
    power = 2 if kind == "percentage" else 0
    return NumberFormat(before, after, 0, zeros, power) if before or after or zeros else None


FORMAT = Format(
    document_type="ods",
    text_format="sections",
    media_types=frozenset({"application/vnd.oasis.opendocument.spreadsheet"}),
    suffixes=frozenset({".ods", ".ots", ".fods"}),
    sniff=lambda data: holds(data, "spreadsheet"),
    read=read,
    libraries=("lxml", "python-calamine"),
    revision=12,
)
