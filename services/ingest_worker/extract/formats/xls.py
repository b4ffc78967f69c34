"""Reads Excel files of the versions 97 to 2003."""

import struct
from collections import defaultdict

from services.ingest_worker.extract import limits, sheets
from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.ole import OLE, is_ole, stream_places
from services.ingest_worker.extract.sheet_views import ERRORS, SheetView, hidden_parts
from services.ingest_worker.extract.sparse_sheets import book_moved_together, old_records

# Kinds of records in a workbook: https://learn.microsoft.com/openspecs/office_file_formats/ms-xls
_SHEET, _COLUMNS, _ROW, _FILTERED, _LINK, _FORMULA, _ERROR = 0x85, 0x7D, 0x208, 0x9B, 0x1B8, 0x06, 0x205
_NAMED, _WINDOW, _PANE = 0x18, 0x23E, 0x41
# Names that Excel gives: to the rows that are printed on each page, or can be filtered; they begin with the range.
_HEADS = {b"\x07\x3b": 4, b"\x0d\x3b": 2}  # offset of the last row, or of the first
# The parts of a formula: a text, another cell, and at the end what makes a link of them
_STRING, _CELL, _HYPERLINK = b"\x17", 6, b"\x67\x01"
_MONIKER = bytes.fromhex("e0c9ea79f9bace118c8200aa004ba90b")  # begins an address within a link


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet and a paragraph per row.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    near = book_moved_together(data, hints)
    # Of a book whose cells were moved, the places of other records are not those of the cells.
    book = bytearray(b"".join(data[place] for place in stream_places(data, "Workbook") if near is data))
    named = [at for kind, at, size in old_records(book, 0) if kind == _SHEET and size > 8]
    heads = defaultdict[int, set[int]](set)  # by the number of the sheet, from 1
    for kind, at, size in old_records(book, 0):
        if kind == _NAMED and size > 24 and (offset := _HEADS.get(bytes(book[at + 15 : at + 17]))):
            heads[int.from_bytes(book[at + 8 : at + 10], "little")].add(_number(book, at + 17 + offset))
    views: dict[str, SheetView] = {}
    for sheet, at in enumerate(named, 1):
        if limits.spent():
            break
        view = _view(book, int.from_bytes(book[at : at + 4], "little"))
        views[_text(book, at + 6)] = view._replace(heads=view.heads | heads[sheet])
    return sheets.read_as("xls", near, hints, {}, views=views)


def _text(book: bytearray, at: int) -> str:
    wide = book[at + 1] & 1
    return book[at + 2 : at + 2 + book[at] * (1 + wide)].decode("utf-16-le" if wide else "latin-1", "replace")


def _number(book: bytearray, at: int) -> int:
    return int.from_bytes(book[at : at + 2], "little")


def _view(book: bytearray, start: int) -> SheetView:
    rows: list[tuple[int, bool, int]] = []
    columns: list[tuple[int, int, bool, int]] = []
    beside: dict[int, dict[int, str]] = {}
    heads = frozenset[int]()
    filtered = frozen = False
    for kind, at, size in old_records(book, start):
        if kind == _ROW and size > 13:
            rows.append((int.from_bytes(book[at : at + 2], "little"), bool(book[at + 12] & 0x20), book[at + 12] & 7))
        elif kind == _COLUMNS and size > 9:
            first, last, width, _, flags = struct.unpack_from("<5H", book, at)
            columns.append((first, last, bool(flags & 1) or not width, flags >> 8 & 7))
        elif kind == _LINK and (begin := book.find(_MONIKER, at, at + size)) > 0:
            row, _, column = struct.unpack_from("<3H", book, at)
            address = book[begin + len(_MONIKER) + 4 : at + size].decode("utf-16-le", "ignore").partition("\0")[0]
            if ADDRESS.fullmatch(address := address.strip()):
                beside.setdefault(row, {})[column] = address
        elif kind in (_ERROR, _FORMULA) and (
            text := _error(book, kind, at) or (kind == _FORMULA and _linked(book, at))
        ):
            row, column = struct.unpack_from("<2H", book, at)
            beside.setdefault(row, {})[column] = text
        elif kind == _WINDOW:
            frozen = bool(book[at] & 8)
        elif kind == _PANE and frozen:
            heads = frozenset({_number(book, at + 2) - 1})
        filtered = filtered or kind == _FILTERED
    return hidden_parts(rows, columns, filtered=filtered)._replace(beside=beside, heads=heads)


def _error(book: bytearray, kind: int, at: int) -> str | None:
    """Return the error that the cell has for a value; None if it has none."""
    is_one = book[at + 7] == 1 if kind == _ERROR else (book[at + 6], *book[at + 12 : at + 14]) == (2, 255, 255)
    return ERRORS.get(book[at + 6 if kind == _ERROR else at + 8]) if is_one else None


def _linked(book: bytearray, at: int) -> str:
    """Return the address that the formula of a link has; '' for another formula, or where it computes its address."""
    formula = book[at + 22 : at + 22 + _number(book, at + 20)]
    if formula[:1] != _STRING or not formula.endswith(_HYPERLINK):
        return ""
    behind = formula[3 + formula[1] * (1 + (formula[2] & 1)) :]
    alone = len(behind) == 3 + _CELL or (behind[:1] == _STRING and len(behind) == 7 + behind[1] * (1 + (behind[2] & 1)))
    address = _text(formula, 1)
    return address if (alone or len(behind) == 4) and ADDRESS.fullmatch(address) else ""


FORMAT = Format(
    document_type="xls",
    text_format="sections",
    media_types=frozenset({"application/vnd.ms-excel"}),
    begins=OLE,
    suffixes=frozenset({".xls", ".xlt"}),
    sniff=lambda data: (
        any(is_ole(data, stream) for stream in ("Workbook", "Book")) and not is_ole(data, "__properties_version1.0")
    ),
    read=read,
    libraries=("python-calamine",),
    revision=8,
)
