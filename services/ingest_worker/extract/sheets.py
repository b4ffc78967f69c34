"""Reads spreadsheets of all formats with calamine: a section per sheet, each value with its header."""

import datetime as dt
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TypeVar

from services.ingest_worker.extract.archive import Properties
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.format_types import Extraction, Hints, as_part
from services.ingest_worker.extract.html_markdown import cell_text
from services.ingest_worker.extract.rows import REPEATED, labelled, number, row_label
from services.ingest_worker.extract.sheet_views import SheetView
from services.ingest_worker.extract.table_header import Covered, Figure, Name
from shared.contracts import Note
from shared.errors import Rejected

LeftOut = defaultdict[str, set[int]]  # the hidden rows and columns with values in them, as `row` and `column`
_Value = TypeVar("_Value")
_DURATION = re.compile(r"PT(\d{1,9})H(\d\d?)M(\d\d?)(?:\.\d*)?S")


def read_as(
    document_type: str,
    data: bytes,
    hints: Hints,
    says: Properties,
    *,
    drawn: Mapping[str, str] = MappingProxyType({}),
    views: Mapping[str, SheetView] = MappingProxyType({}),
) -> Extraction:
    """Return a heading per visible sheet and a paragraph per row, then the sheet's entry in `drawn`, its drawings.

    `says` are the document's properties, `views` how the sheets show their cells.

    Raises:
        Rejected: code `password` or `damaged`.
    """
    import python_calamine as calamine  # native code that only parser processes load

    texts: list[str] = []
    notes: list[Note] = []
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        for about in book.sheets_metadata:
            name = about.name
            if about.visible != calamine.SheetVisibleEnum.Visible:
                notes.append(Note(code="hidden", place=name, message=f"the hidden sheet {name} was left out"))
                continue
            if about.typ in (calamine.SheetTypeEnum.MacroSheet, calamine.SheetTypeEnum.DialogSheet):
                notes.append(Note(code="macro", place=name, message=f"the sheet {name} of macros was left out"))
                continue
            beside, view = drawn.get(name, ""), views.get(name, SheetView())
            left_out = LeftOut(set)
            try:
                sheet = book.get_sheet_by_name(name)
                merged = view._replace(merged=sheet.merged_cell_ranges or view.merged)
                # calamine yields all rows, but columns only from the first used one
                left = sheet.start[1] if sheet.start else 0
                rows = labelled(shown_rows(sheet.iter_rows(), merged, left_out, left))
            except (calamine.CalamineError, OSError, ValueError):  # a chart sheet, or a damaged sheet
                rows = ""
                unread = Note(code="damaged", place=name, message=f"the sheet {name} could not be read")
                notes += [] if beside else [unread]
            notes += left_out_notes(name, left_out, view.formulas)
            if rows or beside:
                texts.append(as_part(name, cleaned("\n\n".join(filter(None, [rows, beside])))))
    except calamine.PasswordError:
        raise Rejected(f"{hints.name} is locked by a password", "password") from None
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Rejected(f"{hints.name} is damaged: not a readable {document_type.upper()} file", "damaged") from error
    return Extraction(
        text="\n\n".join(texts),
        **declared(says),
        notes=tuple(notes),
    )


def left_out_notes(name: str, left_out: LeftOut, formulas: int = 0) -> Iterator[Note]:
    """Yield what the reader of the sheet doesn't get, with `formulas` that have no value."""
    counts = [(len(left_out[what]), what) for what in ("row", "column")]
    if parts := [f"{count} hidden {what}{'s' if count > 1 else ''}" for count, what in counts if count]:
        verb = "was" if sum(count for count, _ in counts) == 1 else "were"
        yield Note(code="hidden", place=name, message=f"{' and '.join(parts)} of the sheet {name} {verb} left out")
    if formulas:
        which = f"{formulas} formula{'s' if formulas > 1 else ''} of the sheet {name}"
        message = f"{which} without a stored value: open the file in a spreadsheet program and save it"
        yield Note(code="formula", place=name, message=message)


def shown_rows(
    rows: Iterable[Sequence[object]], view: SheetView, left_out: LeftOut, left: int = 0
) -> Iterator[list[str]]:
    """Yield the rows, blank or of one width, without what is hidden; `left` columns are before theirs."""
    hidden = view.hidden_columns
    filled = _placed(_filled(rows, view, left), view.rows)
    for at, cells in ((at, _names(cells) if at in view.heads else cells) for at, cells in filled):
        if at in view.hidden_rows:
            left_out["row"].update([at] * any(cells))
        elif hidden:
            placed = list(_placed(cells, view.columns, left))
            left_out["column"].update(column for column, cell in placed if cell and column in hidden)
            yield [cell for column, cell in placed if column not in hidden]
        else:
            yield cells


def _placed(values: Iterable[_Value], former: Mapping[int, int], first: int = 0) -> Iterable[tuple[int, _Value]]:
    """Return rows, or the cells of one, with the places that they had before the cells were moved together."""
    now = enumerate(values, first)
    return ((former.get(at, -1), value) for at, value in now) if former else now


def _filled(rows: Iterable[Sequence[object]], view: SheetView, left: int) -> Iterator[list[str]]:
    """Yield the rows, with the value of a merged cell repeated in each cell of the row or column that it covers."""
    merged: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (first, begin), (last, end) in view.merged:
        if (first, begin) != (last, end) and begin >= left:
            merged[first].append((last, begin - left, end - left))
    down: dict[int, tuple[int, str]] = {}  # column -> last covered row, and the value
    for at, (former, row) in enumerate(_placed(rows, view.rows)):
        cells = _cells(row, view, former, left)
        own = sum(map(bool, cells))
        for last, begin, end in _apart(merged.get(at, ())):
            value = cells[begin] if begin < len(cells) else ""
            if last > at and value and (not begin or len(value) <= REPEATED):
                down[begin] = (last, value if begin else row_label(value))
            if end > begin and own > 1 and len(value) <= REPEATED:  # a value alone in its row is not a name of columns
                for column in range(begin + 1, min(end + 1, len(cells))):
                    cells[column] = cells[column] or Covered(value)
        for column, (last, value) in list(down.items()) if own else ():
            if at > last:
                del down[column]
            else:
                cells[column] = cells[column] or Covered(value)
        yield cells


def _names(cells: Iterable[str]) -> list[str]:
    return [cell if isinstance(cell, Covered | Figure) else Name(" ".join(cell.split())) for cell in cells]


def _apart(ranges: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the merged ranges that begin in a row, but those that overlap: all of a row may claim all of its cells."""
    covered = -1
    for last, begin, end in sorted(ranges, key=itemgetter(1)):
        if begin > covered:
            yield last, begin, end
            covered = end


def _cells(row: Sequence[object], view: SheetView, at: int, left: int) -> list[str]:
    formats, beside = view.formats.get(at, {}), view.beside.get(at, {})
    cells = [
        Figure(formats[column].shown(value)) if isinstance(value, float) and column in formats else shown(value)
        for column, value in _placed(row, view.columns, left)
    ]
    for place, (column, cell) in enumerate(_placed(tuple(cells), view.columns, left) if beside else ()):
        if (text := beside.get(column, "")) not in cell:
            cells[place] = f"[{cell}]({text})" if cell else text
    return cells


def shown(value: object) -> str:
    """Return a cell's value as text."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):  # the only type of number in spreadsheets
        return number(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00").removesuffix(":00")
    if isinstance(value, dt.time):
        return value.isoformat().removesuffix(":00")
    if isinstance(value, dt.timedelta):
        return _duration(*divmod(round(value.total_seconds()), 60))
    if (long := _DURATION.fullmatch(str(value))) is not None:  # in OpenDocument, from 24 hours on
        return _duration(60 * int(long[1]) + int(long[2]), int(long[3]))
    return cell_text(str(value))


def _duration(minutes: int, seconds: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
