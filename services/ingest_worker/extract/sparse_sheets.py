"""Moves the far cells of an Excel sheet together: the library that reads sheets keeps a place for each cell between."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.extract.ole import stream_places
from services.ingest_worker.extract.safe_xml import parsed, serialized
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

MOST_PLACES: Final = 5_000_000  # of a sheet, used or not: each takes 32 bytes
# Cells that can span so many places from the first one. Most sheets have none, and aren't looked at more closely.
FAR: Final = re.compile(rb"=\s*+[\"'](?:[A-Za-z]{3}[0-9]|[A-Za-z]{2}[0-9]{5}|[A-Za-z][0-9]{6})")
_PLACE: Final = re.compile(rb"=\s*+[\"']([A-Za-z]{1,3})([0-9]{1,7})[\"']")
_SIZE: Final = b"\x94\x01\x10"  # begins the record of a binary sheet's first and last row and column
ROW: Final = 0  # kinds of records in a binary sheet ([MS-XLSB] 2.3.2)
_CELLS: Final = frozenset({*range(2, 12), 62})  # with a value
# Kinds of records in a sheet of Excel 97 to 2003 ([MS-XLS] 2.3), and the cells with a value among them
_SPAN, _MANY, _MERGED, _SHEET, _END = 0x200, 0xBD, 0xE5, 0x85, 0x0A
_OLD_CELLS: Final = frozenset({0x06, _MANY, 0xD6, 0xFD, 0x203, 0x204, 0x205, 0x27E, 0x406})
_LEAST: Final = 12  # bytes of a row's record
_NAME: Final = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")

Ranks = tuple[dict[int, int], dict[int, int]]  # new rows and columns by the former ones, from 1
_Field = tuple[int, int, int]  # of a binary sheet: 0 for a row or 1 for a column, offset, bytes


def moved_together(suspects: Iterable[tuple[str, bytes]], hints: Hints) -> dict[str, tuple[bytes, Ranks]]:
    """Return those of a workbook's sheets that are too far apart to be read, by the names of their parts.

    They have at most one blank row or column between their cells. With each come the new places; only cells have them,
    nothing else that the sheet says of its places. `suspects` are the sheets in which `FAR` was found, and binary ones.

    Raises:
        Rejected: code `too_large`: a sheet spans too many places even so.
    """
    move = {True: _moved_binary, False: _moved}
    moved = ((name, move[name.endswith(".bin")](sheet, name, hints)) for name, sheet in suspects)
    return {name: near for name, near in moved if near is not None}


def _moved(sheet: bytes, name: str, hints: Hints) -> tuple[bytes, Ranks] | None:
    rows_of: dict[bytes, int] = {}  # the last row by the letters of its column
    for place in _PLACE.finditer(sheet):
        rows_of[place[1]] = max(rows_of.get(place[1], 0), int(place[2]))
    span = max(rows_of.values(), default=0) * max((column_number(each.decode()) for each in rows_of), default=0)
    root = parsed(sheet) if span > MOST_PLACES else None  # a tree takes 1 kB for each cell
    if root is None:
        return None
    cells = list(_placed(root))
    ranks = _nearer({row for _, row, _ in cells}, {column for _, _, column in cells}, name, hints)
    if ranks is None:
        return None
    rows, columns = ranks
    for cell, row, column in cells:
        cell.set("r", f"{_letters(columns[column])}{rows[row]}")
    for other in root.findall("{*}mergeCells"):  # names cells by their former places
        root.remove(other)
    return serialized(root), ranks


def _moved_binary(sheet: bytes, name: str, hints: Hints) -> tuple[bytes, Ranks] | None:
    # Looking at each cell takes half as long as reading the sheet. One that lies about its size kills its own parser.
    at = sheet.find(_SIZE, 0, 1000) + len(_SIZE)
    if (1 + _integer(sheet, at + 4)) * (1 + _integer(sheet, at + 12)) <= MOST_PLACES:
        return None
    moved, fields, row = bytearray(sheet), set[_Field](), None
    for kind, at in records(sheet):
        if kind == ROW:
            row = at
        elif kind in _CELLS:
            fields |= {(1, at, 4)} if row is None else {(0, row, 4), (1, at, 4)}
    ranks = _written(moved, fields, (), name, hints)
    return None if ranks is None else (bytes(moved), ranks)


def _written(sheet: bytearray, fields: set[_Field], columns: Iterable[int], name: str, hints: Hints) -> Ranks | None:
    """Write near places into the fields; None if the sheet stays as it is. `columns` have cells without a field."""
    far = set[int](), set(columns)
    for axis, at, size in fields:
        far[axis].add(1 + _integer(sheet, at, size))
    ranks = _nearer(*far, name, hints)
    if ranks is not None:
        for axis, at, size in fields:
            sheet[at : at + size] = (ranks[axis][1 + _integer(sheet, at, size)] - 1).to_bytes(size, "little")
    return ranks


def records(sheet: bytes) -> Iterator[tuple[int, int]]:
    """Yield the kind of each record with a content, and where that begins; rows and cells with their place in it."""
    at, size = 0, len(sheet) - 6
    while at < size:
        kind = sheet[at]
        at += 1
        if kind & 128:
            kind = kind & 127 | sheet[at] << 7
            at += 1
        length = shift = 0
        for _ in range(4):
            length |= (sheet[at] & 127) << shift
            shift += 7
            at += 1
            if not sheet[at - 1] & 128:
                break
        if length >= (_LEAST if kind == ROW else 4) and at + length <= len(sheet):
            yield kind, at
        at += length


def book_moved_together(data: bytes, hints: Hints) -> bytes:
    """Return the workbook of Excel 97 to 2003 with near cells, as `moved_together` does.

    Raises:
        Rejected: code `too_large`.
    """
    places = stream_places(data, "Workbook")
    book = bytearray(b"".join(data[place] for place in places))
    starts = [_integer(book, at) for kind, at, _ in old_records(book, 0) if kind == _SHEET]
    moved_sheets = [_moved_old(book, start, f"sheet {number}", hints) for number, start in enumerate(starts, 1)]
    if not any(moved_sheets):
        return data
    moved, at = bytearray(data), 0
    for place in places:
        moved[place] = book[at : at + place.stop - place.start]
        at += place.stop - place.start
    return bytes(moved)


def _moved_old(book: bytearray, start: int, name: str, hints: Hints) -> bool:
    """Return whether the cells of the sheet that starts there are moved now."""
    fields, columns = set[_Field](), set[int]()
    merged: list[int] = []  # offsets of counts
    for kind, at, size in old_records(book, start):
        if kind == _SPAN and _integer(book, at + 4) * _integer(book, at + 10, 2) <= MOST_PLACES:
            return False
        if kind in _OLD_CELLS and size >= 6:
            # Columns of one record follow each other, at their new places, too. A column may stand at `last` alone.
            last = at + size - 2 if kind == _MANY else at + 2
            fields |= {(0, at, 2), (1, at + 2, 2), (1, last, 2)}
            columns.update(range(1 + _integer(book, at + 2, 2), 1 + _integer(book, last, 2)))
        elif kind == _MERGED:
            merged.append(at)
    if _written(book, fields, columns, name, hints) is None:
        return False
    for at in merged:
        book[at : at + 2] = b"\0\0"  # they name cells by their former places
    return True


def old_records(book: bytearray, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, offset and size of the records from there to the end of their sheet."""
    while at + 4 <= len(book):
        kind, size = _integer(book, at, 2), _integer(book, at + 2, 2)
        if kind == _END or at + 4 + size > len(book):
            return
        yield kind, at + 4, size
        at += 4 + size


def _integer(data: bytes | bytearray, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _nearer(rows: set[int], columns: set[int], name: str, hints: Hints) -> Ranks | None:
    """Return new rows and columns, from 1; None if a sheet with these may stay as it is.

    Raises:
        Rejected: code `too_large`: even the new ones span too many places.
    """
    if not rows or max(rows) * max(columns) <= MOST_PLACES:
        return None
    near = _ranks(rows), _ranks(columns)
    if max(near[0].values()) * max(near[1].values()) > MOST_PLACES:
        raise Rejected(f"{hints.name} spreads its cells over too many rows and columns in {name}", "too_large")
    return near


def _placed(root: "_Element") -> "Iterable[tuple[_Element, int, int]]":
    """Yield the cells with row and column, from 1. A cell without a place follows the one before it."""
    row = 0
    for line in root.iterfind("{*}sheetData/{*}row"):
        stated = line.get("r", "")
        row, column = int(stated) if stated.isdecimal() and len(stated) < 8 else row + 1, 0
        for cell in line.iterfind("{*}c"):
            place = _NAME.fullmatch(cell.get("r", ""))
            column = column_number(place[1]) if place else column + 1
            yield cell, int(place[2]) if place else row, column


def _ranks(places: set[int]) -> dict[int, int]:
    """Return new places in the same order, from 1, with at most one free between two."""
    ranks: dict[int, int] = {}
    rank = 0
    for before, place in pairwise([0, *sorted(places)]):
        rank += min(place - before, 2)
        ranks[place] = rank
    return ranks


def column_number(letters: str) -> int:
    """Return the number of the column that has these letters, from 1."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - 64
    return number


def _letters(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
