"""Finds in an Excel sheet what the library that reads its values leaves out: formats, hidden rows and columns."""

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from types import MappingProxyType
from typing import NamedTuple
from zipfile import ZipFile

from services.ingest_worker.extract.archive import ADDRESS, addresses, part, related, root_of
from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.extract.number_formats import BUILT_IN, NumberFormat, number_format
from services.ingest_worker.extract.safe_xml import attribute, whole
from services.ingest_worker.extract.sparse_sheets import ROW, Ranks, column_number, records

_PREFIX = rb"<(?:\w{1,20}:)?"
# What a view is made of: elements with their attributes; of a cell, its formula and how its value begins.
_ELEMENT = re.compile(
    _PREFIX
    + rb"(row|col|c|hyperlink)(\s[^<>]{0,3000})>(?:\s{0,99}("
    + _PREFIX
    + rb"f(?:\s[^<>]{0,999})?(?:/>|>[^<]{0,9000}</(?:\w{1,20}:)?f>)))?(?:\s{0,99}"
    + _PREFIX
    + rb"v(?:\s[^<>]{0,99})?>([^<]))?"
)
_SIGNS = (b"<f", b":f", b"hidden=", b'ht="0"', b'width="0"')  # of a sheet that has any of that
_ATTRIBUTE = re.compile(r"\s(?!xmlns:)(?:\w{1,20}:)?(\w{1,20})=[\"']([^\"']{1,200})")
_FILTER = re.compile(rb"[<:]autoFilter\s(?:[^<>]*\s)?ref=\"([A-Z0-9:]{1,30})\"")
_FROZEN = re.compile(rb"[<:]pane\s(?=[^<>]*\sstate=\"frozen)(?:[^<>]*\s)?ySplit=\"(\d{1,3})\"")
_RANGE = re.compile(r"[A-Z]{1,3}([0-9]{1,7}):[A-Z]{1,3}([0-9]{1,7})")
ERRORS = {
    0: "#NULL!",
    7: "#DIV/0!",
    15: "#VALUE!",
    23: "#REF!",
    29: "#NAME?",
    36: "#NUM!",
    42: "#N/A",
}  # in binary sheets
# A formula, as Excel and OpenDocument write it. An address that is computed is none.
_LINKING = re.compile(r"(?:<[^<>]{1,1020}+>|of:=)HYPERLINK\(\"([^\"\s]{1,2000}+)\"\s?[,;)]")
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_COLUMNS = 16_384
_COLUMNS_RECORD, _FILTER_RECORD, _ERRORS = 60, 161, (3, 11)  # kinds of records in a binary sheet ([MS-XLSB] 2.3.2)


class SheetView(NamedTuple):
    """How a sheet shows its cells. Rows and columns count from 0."""

    formats: Mapping[int, Mapping[int, NumberFormat]] = MappingProxyType({})  # by row and column
    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    formulas: int = 0  # without a stored value
    beside: Mapping[int, Mapping[int, str]] = MappingProxyType({})  # addresses and errors by row and column
    merged: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()  # first and last cells, where the library has none
    heads: frozenset[int] = frozenset()  # rows that the file marks as the names of columns
    # Where the cells stood before they were moved together, at which the view names them; empty if they weren't.
    rows: Mapping[int, int] = MappingProxyType({})
    columns: Mapping[int, int] = MappingProxyType({})


def number_formats(archive: ZipFile, book: str, hints: Hints) -> dict[int, NumberFormat]:
    """Return the formats of numbers by the index of their style, without those that show numbers as they are stored.

    Raises:
        Rejected: as `part`.
    """
    kinds = dict(related(archive, book, hints).values())
    root = root_of(archive, kinds.get("styles", ""), hints)
    if root is None:
        return {}
    codes = dict(BUILT_IN)
    for each in root.iterfind("{*}numFmts/{*}numFmt"):
        if (name := each.get("numFmtId", "")).isdecimal():
            codes[int(name[:9])] = each.get("formatCode", "")
    known = {name: number_format(code) for name, code in codes.items()}
    styles = (each.get("numFmtId", "") for each in root.iterfind("{*}cellXfs/{*}xf"))
    found = ((at, known.get(int(name[:9]))) for at, name in enumerate(styles) if name.isdecimal())
    return {at: shape for at, shape in found if shape is not None}


def sheet_view(archive: ZipFile, path: str, styles: Mapping[int, NumberFormat], hints: Hints) -> SheetView:
    """Return the view of a sheet. Rows that a filter or a folded group hides count as shown.

    Raises:
        Rejected: as `part`.
    """
    sheet, targets = part(archive, path, hints), addresses(archive, path, hints)
    formats, beside = defaultdict[int, dict[int, NumberFormat]](dict), defaultdict[int, dict[int, str]](dict)
    rows: list[tuple[int, bool, int]] = []
    columns: list[tuple[int, int, bool, int]] = []
    tables = [*_tables(archive, path, hints)]
    filters = [each[1].decode() for each in _FILTER.finditer(sheet)]
    heads = {each.start for each in _rows_of([*filters, *(ref for ref, headed, _ in tables if headed)])}
    heads.update(int(frozen[1]) - 1 for frozen in _FROZEN.finditer(sheet))
    formulas = 0
    for found in _ELEMENT.finditer(sheet) if styles or targets or any(sign in sheet for sign in _SIGNS) else ():
        about = dict(_ATTRIBUTE.findall(found[2].decode("utf-8", "replace")))
        place = _PLACE.match(about.get("r") or about.get("ref", ""))
        row, column = (int(place[2]) - 1, column_number(place[1]) - 1) if place else (-1, -1)
        hidden, level = about.get("hidden") in ("1", "true"), whole(about.get("outlineLevel"))
        match found[1]:
            case b"row":
                rows.append((whole(about.get("r")) - 1, hidden or about.get("ht") == "0", level))
            case b"col":
                first, last = (whole(about.get(name)) - 1 for name in ("min", "max"))
                columns.append((first, last, hidden or about.get("width") == "0", level))
            case b"hyperlink" if about.get("id") in targets:
                beside[row].setdefault(column, targets[about["id"]])
            case b"c":
                if shape := styles.get(whole(about.get("s"), -1)):
                    formats[row][column] = shape
                formulas += bool(found[3] and not found[4] and not about.get("t", "").startswith("str"))
                if about.get("t") != "e" and b"HYPERLINK(" in (found[3] or b""):
                    address = linked(unescape(found[3].decode("utf-8", "replace")))
                    beside[row] |= {column: address} if address else {}
    ranges = [*_rows_of([*filters, *(kept for _, _, kept in tables)])]
    shown = [(row, hidden and not any(row in each for each in ranges), level) for row, hidden, level in rows]
    return hidden_parts(shown, columns, filtered=False)._replace(
        formats=formats, formulas=formulas, beside=beside, heads=frozenset(heads)
    )


def linked(formula: str) -> str:
    """Return the address that the formula of a link has; '' if it is none, or computes its address."""
    found = _LINKING.match(formula)
    return found[1] if found and ADDRESS.fullmatch(found[1]) else ""


def _rows_of(ranges: Iterable[str]) -> Iterator[range]:
    """Yield the rows of the ranges that are written as such."""
    return (range(int(ends[1]) - 1, int(ends[2])) for each in ranges if (ends := _RANGE.fullmatch(each)))


def _tables(archive: ZipFile, path: str, hints: Hints) -> Iterator[tuple[str, bool, str]]:
    """Yield the range of each table of a sheet, whether it has a header, and the range of its filter, or ''."""
    for kind, table in related(archive, path, hints).values():
        root = root_of(archive, table, hints) if kind == "table" else None
        if root is not None:
            yield root.get("ref", ""), root.get("headerRowCount") != "0", attribute(root.find("{*}autoFilter"), "ref")


def moved(view: SheetView, ranks: Ranks) -> SheetView:
    """Return the view of a sheet whose cells have other places now."""
    rows, columns = ({now - 1: before - 1 for before, now in each.items()} for each in ranks)
    return view._replace(rows=rows, columns=columns)


def binary_view(sheet: bytes) -> SheetView:
    """Return the view of a sheet in the binary format (.xlsb)."""
    rows: list[tuple[int, bool, int]] = []
    columns: list[tuple[int, int, bool, int]] = []
    errors: dict[int, dict[int, str]] = {}
    filtered = False
    for kind, at in records(sheet):
        if kind in _ERRORS and rows and at + 8 < len(sheet) and sheet[at + 8] in ERRORS:
            errors.setdefault(rows[-1][0], {})[int.from_bytes(sheet[at : at + 4], "little")] = ERRORS[sheet[at + 8]]
        elif kind == ROW:
            rows.append((int.from_bytes(sheet[at : at + 4], "little"), bool(sheet[at + 11] & 0x10), sheet[at + 11] & 7))
        elif kind == _COLUMNS_RECORD and at + 18 <= len(sheet):
            first, last, width, _, flags = struct.unpack_from("<4IH", sheet, at)
            columns.append((first, last, bool(flags & 1) or not width, flags >> 8 & 7))
        filtered = filtered or kind == _FILTER_RECORD
    return hidden_parts(rows, columns, filtered=filtered)._replace(beside=errors)


def hidden_parts(
    rows: Iterable[tuple[int, bool, int]], columns: Iterable[tuple[int, int, bool, int]], *, filtered: bool
) -> SheetView:
    """Return the view of a sheet by what its file says of rows, and of columns from one to another.

    That is whether each is hidden, and its level in groups. Of a `filtered` sheet, all rows count as shown.
    """
    return SheetView(
        hidden_rows=frozenset(row for row, hidden, level in rows if hidden and not level and not filtered),
        hidden_columns=frozenset(
            column
            for first, last, hidden, level in columns
            for column in (range(first, min(last + 1, _COLUMNS)) if hidden and not level else ())
        ),
    )
