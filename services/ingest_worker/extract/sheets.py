"""Reads spreadsheets of all formats with calamine: a section per sheet, each value with its header."""

import datetime as dt
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from services.ingest_worker.extract.archive import Properties
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.declared import declared
from services.ingest_worker.extract.format import Extraction, Hints
from services.ingest_worker.extract.rows import REPEATED, labelled, number
from services.ingest_worker.extract.table_header import Covered
from shared.contracts import Note
from shared.errors import Rejected

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

_DURATION = re.compile(r"PT(\d{1,9})H(\d\d?)M(\d\d?)(?:\.\d*)?S")


def read_as(
    document_type: str, data: bytes, hints: Hints, says: Properties, drawn: Mapping[str, str] | None = None
) -> Extraction:
    """Return a heading per visible sheet and a paragraph per row, then the sheet's entry in `drawn`, its drawings.

    `says` are the document's properties.

    Raises:
        Rejected: code `password` or `damaged`.
    """
    import python_calamine as calamine  # native code that only parser processes load

    texts: list[str] = []
    notes: list[Note] = []
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        for sheet in book.sheets_metadata:
            name = sheet.name
            if sheet.visible != calamine.SheetVisibleEnum.Visible:
                notes.append(Note(code="hidden", place=name, message=f"the hidden sheet {name} was left out"))
                continue
            beside = (drawn or {}).get(name, "")
            try:
                rows = labelled(_rows(book.get_sheet_by_name(name)))
            except (calamine.CalamineError, OSError, ValueError):  # a chart sheet, or a damaged sheet
                rows = ""
                unread = Note(code="damaged", place=name, message=f"the sheet {name} could not be read")
                notes += [] if beside else [unread]
            if rows or beside:
                texts.append("\n\n".join(filter(None, [f"# {' '.join(name.split())}", rows, beside])))
    except calamine.PasswordError:
        raise Rejected(f"{hints.name} is locked by a password", "password") from None
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Rejected(f"{hints.name} is damaged: not a readable {document_type.upper()} file", "damaged") from error
    return Extraction(
        text=cleaned("\n\n".join(texts)),
        document_type=document_type,
        **declared(says),
        notes=tuple(notes),
    )


def _rows(sheet: "CalamineSheet") -> Iterator[list[str]]:
    """Yield the rows, with the value of a merged cell repeated in each cell of the row or column that it covers."""
    merged: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    left = sheet.start[1] if sheet.start else 0  # calamine yields all rows, but columns only from the first used one
    for (first, begin), (last, end) in sheet.merged_cell_ranges or ():
        if (first == last) != (begin == end) and begin >= left:
            merged[first].append((last, begin - left, end - left))
    down: dict[int, tuple[int, str]] = {}  # column -> last covered row, and the value
    for at, row in enumerate(sheet.iter_rows()):
        cells = list(map(_shown, row))
        own = sum(map(bool, cells))
        for last, begin, end in merged.get(at, ()):
            value = cells[begin] if begin < len(cells) else ""
            if last > at and value and len(value) <= REPEATED:
                down[begin] = (last, value)
            elif own > 1 and len(value) <= REPEATED:  # a value alone in its row is not a name of columns
                for column in range(begin + 1, min(end + 1, len(cells))):
                    cells[column] = cells[column] or Covered(value)
        for column, (last, value) in list(down.items()) if own else ():
            if at > last:
                del down[column]
            else:
                cells[column] = cells[column] or Covered(value)
        yield cells


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):  # the only type of number in spreadsheets
        return number(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, dt.timedelta):
        return _duration(*divmod(round(value.total_seconds()), 60))
    if (long := _DURATION.fullmatch(str(value))) is not None:  # in OpenDocument, from 24 hours on
        return _duration(60 * int(long[1]) + int(long[2]), int(long[3]))
    return str(value)


def _duration(minutes: int, seconds: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
