"""Finds in an Excel sheet what the library that reads its values leaves out: formats, hidden rows and columns."""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from zipfile import ZipFile

from services.ingest_worker.extract.archive import ADDRESS, addresses, part, related, root_of
from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.extract.number_formats import BUILT_IN, NumberFormat, number_format
from services.ingest_worker.extract.sparse_sheets import ROW, Ranks, column_number, records

_PREFIX = rb"<(?:\w{1,20}:)?"
_HIDDEN = rb"\s(?:hidden=[\"'](?:1|true)|(?:ht|width)=[\"']0[\"'])"
_ROW = re.compile(_PREFIX + rb"row(?=\s)[^<>]{0,400}" + _HIDDEN + rb"[^<>]{0,400}>")
_COLUMN = re.compile(_PREFIX + rb"col(?=\s)[^<>]{0,400}" + _HIDDEN + rb"[^<>]{0,400}>")
_ATTRIBUTE = re.compile(rb"\s(r|min|max|outlineLevel|ref)=[\"']([^\"']{1,40})")
_FILTER = re.compile(_PREFIX + rb"autoFilter\s[^<>]{0,400}>")
_RANGE = re.compile(rb"[A-Z]{1,3}([0-9]{1,7}):[A-Z]{1,3}([0-9]{1,7})")
# A formula without a value; a formula whose value is an empty text has that type.
_FORMULA = re.compile(
    _PREFIX
    + rb"c(?:\s[^<>]{0,400})?>\s{0,99}"
    + _PREFIX
    + rb"f(?:\s[^<>]{0,999})?(?:/>|>[^<]{0,9000}</(?:\w{1,20}:)?f>)\s{0,99}(?:"
    + _PREFIX
    + rb"v\s?/>|"
    + _PREFIX
    + rb"v></(?:\w{1,20}:)?v>)?\s{0,99}</(?:\w{1,20}:)?c>"
)
_VALUE = _PREFIX + rb"f[^<>]{0,999}>(?:[^<]{0,9000}</(?:\w{1,20}:)?f>)?\s{0,99}"
_ERROR = re.compile(
    rb"r=[\"']([A-Z]{1,3})([0-9]{1,7})[\"'][^<>]{0,200}\st=\"e\"[^<>]{0,200}>\s{0,99}(?:"
    + _VALUE
    + rb")?"
    + _PREFIX
    + rb"v>(#[\w/!?]{2,20})<"
)
ERRORS = {
    0: "#NULL!",
    7: "#DIV/0!",
    15: "#VALUE!",
    23: "#REF!",
    29: "#NAME?",
    36: "#NUM!",
    42: "#N/A",
}  # in binary sheets
_LINKED = re.compile(_PREFIX + rb"hyperlink\s[^<>]{1,2000}>")
_ID = re.compile(rb":id=[\"']([^\"']{1,200})")
_LINKING = re.compile(
    rb"r=[\"']([A-Z]{1,3})([0-9]{1,7})[\"'][^<>]{0,200}>\s{0,9}"
    + _PREFIX
    + rb"f>HYPERLINK\((?:\"|&quot;)([^\"&<>\s]{1,2000})"
)
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_OF_TEXT = re.compile(rb"[^>]{0,500}\st=[\"']str")
_COLUMNS = 16_384
_Value = TypeVar("_Value")
_COLUMNS_RECORD, _FILTER_RECORD, _ERRORS = 60, 161, (3, 11)  # kinds of records in a binary sheet ([MS-XLSB] 2.3.2)


class SheetView(NamedTuple):
    """How a sheet shows its cells. Rows and columns count from 0."""

    formats: Mapping[int, Mapping[int, NumberFormat]] = MappingProxyType({})  # by row and column
    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    formulas: int = 0  # without a stored value
    beside: Mapping[int, Mapping[int, str]] = MappingProxyType({})  # addresses and errors by row and column
    merged: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()  # first and last cells, where the library has none


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
    sheet = part(archive, path, hints)
    hidden = any(sign in sheet for sign in (b"hidden=", b'ht="0"', b'width="0"'))
    formulas = (
        sum(_OF_TEXT.match(each[0]) is None for each in _FORMULA.finditer(sheet))
        if b"<f" in sheet or b":f" in sheet
        else 0
    )
    return SheetView(
        formats=_formatted(sheet, styles) if styles else {},
        hidden_rows=frozenset(_hidden_rows(archive, path, sheet, hints)) if hidden else frozenset(),
        hidden_columns=frozenset(_hidden_columns(sheet)) if hidden else frozenset(),
        formulas=formulas,
        beside=_beside(sheet, addresses(archive, path, hints)),
    )


def moved(view: SheetView, ranks: Ranks) -> SheetView:
    """Return the view of a sheet whose cells have other places now."""
    rows, columns = ({before - 1: now - 1 for before, now in each.items()} for each in ranks)
    return SheetView(
        formats=_moved_values(view.formats, rows, columns),
        hidden_rows=frozenset(rows[row] for row in view.hidden_rows if row in rows),
        hidden_columns=frozenset(columns[column] for column in view.hidden_columns if column in columns),
        formulas=view.formulas,
        beside=_moved_values(view.beside, rows, columns),
    )


def _moved_values(
    values: Mapping[int, Mapping[int, _Value]], rows: Mapping[int, int], columns: Mapping[int, int]
) -> dict[int, dict[int, _Value]]:
    return {
        rows[row]: {columns[at]: value for at, value in some.items() if at in columns}
        for row, some in values.items()
        if row in rows
    }


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


def _beside(sheet: bytes, targets: Mapping[str, str]) -> dict[int, dict[int, str]]:
    found: dict[int, dict[int, str]] = {}
    for each in _LINKED.finditer(sheet) if targets else ():
        of, place = _ID.search(each[0]), _PLACE.match(_attributes(each[0]).get(b"ref", b"").decode("latin-1"))
        if of and place and (address := targets.get(of[1].decode("utf-8", "replace"))):
            found.setdefault(int(place[2]) - 1, {})[column_number(place[1]) - 1] = address
    for letters, row, address in _LINKING.findall(sheet) if b"HYPERLINK(" in sheet else ():
        if ADDRESS.fullmatch(text := address.decode("utf-8", "replace")):
            found.setdefault(int(row) - 1, {})[column_number(letters.decode()) - 1] = text
    for letters, row, error in _ERROR.findall(sheet) if b't="e"' in sheet else ():
        found.setdefault(int(row) - 1, {})[column_number(letters.decode()) - 1] = error.decode()
    return found


def _formatted(sheet: bytes, styles: Mapping[int, NumberFormat]) -> dict[int, dict[int, NumberFormat]]:
    some = b"|".join(str(style).encode() for style in sorted(styles))
    place = rb"r=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']"
    cell = re.compile(
        _PREFIX + rb"c\s" + place + rb"(?:\s[a-rt-z]\w{0,20}=[\"']\w{0,20}[\"']){0,5}\ss=[\"'](" + some + rb")[\"']"
    )
    formats: dict[int, dict[int, NumberFormat]] = {}
    for found in cell.finditer(sheet):
        formats.setdefault(int(found[2]) - 1, {})[column_number(found[1].decode()) - 1] = styles[int(found[3])]
    return formats


def _attributes(element: bytes) -> dict[bytes, bytes]:
    return dict(_ATTRIBUTE.findall(element))


def _hidden_rows(archive: ZipFile, path: str, sheet: bytes, hints: Hints) -> Iterator[int]:
    filtered = [_attributes(each[0]).get(b"ref", b"") for each in _FILTER.finditer(sheet)]
    for kind, table in related(archive, path, hints).values():
        if kind == "table" and table in archive.namelist():
            filtered += [
                _attributes(each[0]).get(b"ref", b"") for each in _FILTER.finditer(part(archive, table, hints))
            ]
    ranges = [range(int(found[1]), int(found[2]) + 1) for each in filtered if (found := _RANGE.fullmatch(each))]
    for each in _ROW.finditer(sheet):
        about = _attributes(each[0])
        row = int(about[b"r"]) if about.get(b"r", b"").isdigit() else 0
        if row and about.get(b"outlineLevel", b"0") == b"0" and not any(row in rows for rows in ranges):
            yield row - 1


def _hidden_columns(sheet: bytes) -> Iterator[int]:
    for each in _COLUMN.finditer(sheet):
        about = _attributes(each[0])
        first, last = about.get(b"min", b""), about.get(b"max", b"")
        if first.isdigit() and last.isdigit() and about.get(b"outlineLevel", b"0") == b"0":
            yield from range(int(first) - 1, min(int(last), _COLUMNS))
