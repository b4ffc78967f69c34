"""Moves the far cells of an Excel sheet together: the library that reads sheets keeps a place for each cell between."""

import io
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_STORED, ZipFile

from services.ingest_worker.extract.archive import opened, part
from services.ingest_worker.extract.format import Hints
from services.ingest_worker.extract.markup import parsed
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

MOST_PLACES: Final = 5_000_000  # of a sheet, used or not: each takes 32 bytes
# Cells that can span so many places from the first one. Most sheets have none, and aren't looked at more closely.
FAR: Final = re.compile(rb"=\s*+[\"'](?:[A-Za-z]{3}[0-9]|[A-Za-z]{2}[0-9]{5}|[A-Za-z][0-9]{6})")
_NAME: Final = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")


def moved_together(data: bytes, suspects: Iterable[str], hints: Hints) -> bytes:
    """Return the workbook with at most one blank row or column between its cells, if a sheet is too far apart to read.

    `suspects` are the parts in which `FAR` was found.

    Raises:
        Rejected: code `too_large`: a sheet spans too many places even so; `damaged`, `password`: as `opened`.
    """
    with opened(data, hints) as archive:
        read = ((name, _moved(part(archive, name, hints), name, hints)) for name in suspects)
        moved = {name: near for name, near in read if near is not None}
        if not moved:
            return data
        out = io.BytesIO()
        with ZipFile(out, "w", ZIP_STORED) as copy:
            for name in archive.namelist():
                copy.writestr(name, moved[name] if name in moved else part(archive, name, hints))
    return out.getvalue()


def _moved(sheet: bytes, name: str, hints: Hints) -> bytes | None:
    from lxml import etree  # imported here, because only parser processes should load heavy libraries

    root = parsed(sheet)
    if root is None:
        return None
    cells = list(_placed(root))
    rows, columns = _ranks(row for _, row, _ in cells), _ranks(column for _, _, column in cells)
    if not cells or max(rows) * max(columns) <= MOST_PLACES:
        return None
    if max(rows.values()) * max(columns.values()) > MOST_PLACES:
        raise Rejected(f"{hints.name} spreads {len(cells)} cells over too many rows and columns in {name}", "too_large")
    for cell, row, column in cells:
        cell.set("r", f"{_letters(columns[column])}{rows[row]}")
    for other in root.findall("{*}mergeCells"):  # names cells by their former places
        root.remove(other)
    return etree.tostring(root)


def _placed(root: "_Element") -> "Iterable[tuple[_Element, int, int]]":
    """Yield the cells with row and column, from 1. A cell without a place follows the one before it."""
    row = 0
    for line in root.iterfind("{*}sheetData/{*}row"):
        stated = line.get("r", "")
        row, column = int(stated) if stated.isdecimal() and len(stated) < 8 else row + 1, 0
        for cell in line.iterfind("{*}c"):
            place = _NAME.fullmatch(cell.get("r", ""))
            column = _number(place[1]) if place else column + 1
            yield cell, int(place[2]) if place else row, column


def _ranks(places: Iterable[int]) -> dict[int, int]:
    """Return new places in the same order, from 1, with at most one free between two."""
    ranks: dict[int, int] = {}
    rank = 0
    for before, place in pairwise([0, *sorted(set(places))]):
        rank += min(place - before, 2)
        ranks[place] = rank
    return ranks


def _number(letters: str) -> int:
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
