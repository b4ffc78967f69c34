"""Reads Excel files since version 2007."""

import re
from zipfile import ZipFile

from services.ingest_worker.extract import office, sheets
from services.ingest_worker.extract.archive import checked, drawn, names, opened, part, related
from services.ingest_worker.extract.drawings import shapes
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.markup import parsed, reference
from services.ingest_worker.extract.part_names import declares, usually_named
from services.ingest_worker.extract.sheet_views import SheetView, number_formats, sheet_view
from services.ingest_worker.extract.sparse_sheets import FAR, moved_together
from shared.errors import Rejected

_BOOKS = ("xl/workbook.xml", "xl/workbook.bin")
_MAIN = re.compile(rb"(?:spreadsheetml|ms-excel)\.[\w.]{1,60}\.main\+xml")
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_WITH_MACROS = "application/vnd.ms-excel.sheet.macroenabled.12"
_BINARY = "application/vnd.ms-excel.sheet.binary.macroenabled.12"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet, a paragraph per row, text boxes and charts, with the file's properties.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    if office.is_locked(data):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    data = usually_named(data, hints)
    says, far = checked(data, _BOOKS[_BOOKS[1] in names(data)], hints, FAR)
    with opened(data, hints) as archive:
        far += _binary_sheets(archive, hints)
        near = moved_together(data, far, hints) if far else data
        drawn = _drawn(archive, hints)
        if near is data:
            return sheets.read_as("xlsx", data, hints, says, drawn=drawn, views=_views(archive, hints))
    with opened(near, hints) as archive:
        return sheets.read_as("xlsx", near, hints, says, drawn=drawn, views=_views(archive, hints))


def _views(archive: ZipFile, hints: Hints) -> dict[str, SheetView]:
    """Return the views of the sheets by name."""
    styles = number_formats(archive, _BOOKS[0], hints)
    paths = _sheets(archive, hints)
    return {name: sheet_view(archive, path, styles, hints) for name, path in paths if path.endswith(".xml")}


def _sheets(archive: ZipFile, hints: Hints) -> list[tuple[str, str]]:
    """Return name and path of each sheet whose part is there."""
    listed = archive.namelist()
    book = parsed(part(archive, _BOOKS[0], hints)) if _BOOKS[0] in listed else None
    paths = related(archive, _BOOKS[0], hints)
    sheets = () if book is None else book.iterfind("{*}sheets/{*}sheet")
    named = ((each.get("name", ""), paths.get(reference(each), ("", ""))[1]) for each in sheets)
    return [(name, path) for name, path in named if path in listed]


def _binary_sheets(archive: ZipFile, hints: Hints) -> list[str]:
    listed, sheets = archive.namelist(), related(archive, _BOOKS[1], hints).values()
    return sorted({path for kind, path in sheets if kind.lower().endswith("sheet") and path in listed})


def _drawn(archive: ZipFile, hints: Hints) -> dict[str, str]:
    """Return the text of the text boxes and charts by the name of their sheet."""
    found: dict[str, str] = {}
    for name, path in _sheets(archive, hints):
        blocks: list[str] = []
        for kind, drawing in related(archive, path, hints).values():
            if kind == "drawing" and drawing in archive.namelist():
                root = parsed(part(archive, drawing, hints))
                parts = drawn(archive, related(archive, drawing, hints), hints)
                blocks += [] if root is None else shapes(root, parts)
        found[name] = "\n\n".join(blocks)
    return found


FORMAT = Format(
    document_type="xlsx",
    text_format="sections",
    media_types=frozenset({_TYPE, _WITH_MACROS, _BINARY}),
    suffixes=frozenset({".xlsx", ".xlsm", ".xltx", ".xlsb"}),
    sniff=lambda data: not names(data).isdisjoint(_BOOKS) or declares(data, _MAIN),
    read=read,
    warm=imports("python_calamine"),
    libraries=("lxml", "python-calamine"),
    revision=2,
)
