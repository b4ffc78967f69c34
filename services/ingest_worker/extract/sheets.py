"""Spreadsheets of every make by calamine, a Rust library: a section per sheet, rows that keep their headers."""

import datetime as dt
import io
from collections.abc import Sequence

from services.ingest_worker.extract.archive import Properties
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.declared import declared
from services.ingest_worker.extract.format import Extraction, Hints
from services.ingest_worker.extract.parts import note
from services.ingest_worker.extract.rows import told
from shared.errors import Rejected


def read_as(document_type: str, data: bytes, hints: Hints, says: Properties) -> Extraction:
    """Return a heading per sheet and a paragraph per row. `says` is what is known of the document already.

    Raises:
        Rejected: code `password` or `damaged`.
    """
    import python_calamine as calamine  # noqa: PLC0415 - native code that only the parser processes load

    texts: list[str] = []
    unread: list[str] = []
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        for name in book.sheet_names:
            try:
                rows = told(map(_cells, book.get_sheet_by_name(name).iter_rows()))
            except (calamine.CalamineError, OSError, ValueError):  # a chart, or a broken one
                unread.append(f"the sheet {name} could not be read")
                continue
            if rows:
                texts.append(f"# {' '.join(name.split())}\n\n{rows}")
    except calamine.PasswordError:
        raise Rejected(f"{hints.name} is locked by a password", "password") from None
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Rejected(f"{hints.name} is damaged: not a readable {document_type.upper()} file", "damaged") from error
    return Extraction(
        text=cleaned("\n\n".join(texts)),
        document_type=document_type,
        **declared(says),
        note=note(unread),
    )


def _cells(row: Sequence[object]) -> list[str]:
    return list(map(_shown, row))


def _shown(value: object) -> str:
    if isinstance(value, float) and value.is_integer():  # spreadsheets know no other numbers
        return str(int(value))
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)
