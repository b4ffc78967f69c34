"""Reads Excel files of the versions 97 to 2003."""

from services.ingest_worker.extract import office, sheets
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.ole import OLE
from services.ingest_worker.extract.sparse_sheets import book_moved_together
from shared.errors import Rejected


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet and a paragraph per row.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    if office.is_locked(data):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    return sheets.read_as("xls", book_moved_together(data, hints), hints, {})


FORMAT = Format(
    document_type="xls",
    text_format="sections",
    media_types=frozenset({"application/vnd.ms-excel"}),
    begins=OLE,
    suffixes=frozenset({".xls", ".xlt"}),
    sniff=lambda data: (
        any(office.is_ole(data, stream) for stream in ("Workbook", "Book"))
        and not office.is_ole(data, "__properties_version1.0")
    ),
    read=read,
    warm=imports("python_calamine"),
    libraries=("python-calamine",),
)
