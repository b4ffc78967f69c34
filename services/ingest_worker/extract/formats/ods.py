"""Reads OpenDocument spreadsheets."""

from services.ingest_worker.extract import sheets
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.opendocument import described, holds


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet and a paragraph per row, with title, description, language and dates.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    return sheets.read_as("ods", data, hints, described(data, hints))


FORMAT = Format(
    document_type="ods",
    text_format="sections",
    media_types=frozenset({"application/vnd.oasis.opendocument.spreadsheet"}),
    suffixes=frozenset({".ods", ".ots"}),
    sniff=lambda data: holds(data, "spreadsheet"),
    read=read,
    warm=imports("python_calamine"),
    libraries=("lxml", "python-calamine"),
)
