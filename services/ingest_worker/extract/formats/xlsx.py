"""Reads Excel files since version 2007."""

from zipfile import ZipFile

from services.ingest_worker.extract import office, sheets
from services.ingest_worker.extract.archive import checked, drawn, names, opened, part, related
from services.ingest_worker.extract.drawings import shapes
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.markup import parsed, reference
from services.ingest_worker.extract.sparse_sheets import FAR, moved_together
from shared.errors import Rejected

_BOOKS = ("xl/workbook.xml", "xl/workbook.bin")
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
    says, far = checked(data, _BOOKS[_BOOKS[1] in names(data)], hints, FAR)
    with opened(data, hints) as archive:
        near = moved_together(data, far, hints) if far else data
        return sheets.read_as("xlsx", near, hints, says, _drawn(archive, hints))


def _drawn(archive: ZipFile, hints: Hints) -> dict[str, str]:
    """Return the text of the text boxes and charts by the name of their sheet."""
    book = parsed(part(archive, _BOOKS[0], hints)) if _BOOKS[0] in archive.namelist() else None
    paths = related(archive, _BOOKS[0], hints)
    found: dict[str, str] = {}
    for sheet in () if book is None else book.iterfind("{*}sheets/{*}sheet"):
        of = reference(sheet)
        blocks: list[str] = []
        for kind, drawing in related(archive, paths[of][1], hints).values() if of in paths else ():
            if kind == "drawing" and drawing in archive.namelist():
                root = parsed(part(archive, drawing, hints))
                parts = drawn(archive, related(archive, drawing, hints), hints)
                blocks += [] if root is None else shapes(root, parts)
        found[sheet.get("name", "")] = "\n\n".join(blocks)
    return found


FORMAT = Format(
    document_type="xlsx",
    text_format="sections",
    media_types=frozenset({_TYPE, _WITH_MACROS, _BINARY}),
    suffixes=frozenset({".xlsx", ".xlsm", ".xltx", ".xlsb"}),
    sniff=lambda data: not names(data).isdisjoint(_BOOKS),
    read=read,
    warm=imports("python_calamine"),
    libraries=("lxml", "python-calamine"),
)
