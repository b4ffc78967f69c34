"""Reads Excel files of the versions 97 to 2003."""

import struct

from services.ingest_worker.extract import limits, sheets
from services.ingest_worker.extract.archive import ADDRESS
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.ole import OLE, is_ole, stream_places
from services.ingest_worker.extract.sheet_views import ERRORS, SheetView, hidden_parts
from services.ingest_worker.extract.sparse_sheets import book_moved_together, old_records

# Kinds of records in a workbook: https://learn.microsoft.com/openspecs/office_file_formats/ms-xls
_SHEET, _COLUMNS, _ROW, _FILTERED, _LINK, _FORMULA, _ERROR = 0x85, 0x7D, 0x208, 0x9B, 0x1B8, 0x06, 0x205
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
    starts = ((_name(book, at), int.from_bytes(book[at : at + 4], "little")) for at in named)
    views = {name: _view(book, start) for name, start in starts if not limits.spent()}
    return sheets.read_as("xls", near, hints, {}, views=views)


def _name(book: bytearray, at: int) -> str:
    wide = book[at + 7] & 1
    return book[at + 8 : at + 8 + book[at + 6] * (1 + wide)].decode("utf-16-le" if wide else "latin-1", "replace")


def _view(book: bytearray, start: int) -> SheetView:
    rows: list[tuple[int, bool, int]] = []
    columns: list[tuple[int, int, bool, int]] = []
    beside: dict[int, dict[int, str]] = {}
    filtered = False
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
        elif kind in (_ERROR, _FORMULA) and (error := _error(book, kind, at)):
            row, column = struct.unpack_from("<2H", book, at)
            beside.setdefault(row, {})[column] = error
        filtered = filtered or kind == _FILTERED
    return hidden_parts(rows, columns, filtered=filtered)._replace(beside=beside)


def _error(book: bytearray, kind: int, at: int) -> str | None:
    """Return the error that the cell has for a value; None if it has none."""
    is_one = book[at + 7] == 1 if kind == _ERROR else (book[at + 6], *book[at + 12 : at + 14]) == (2, 255, 255)
    return ERRORS.get(book[at + 6 if kind == _ERROR else at + 8]) if is_one else None


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
    revision=6,
)
