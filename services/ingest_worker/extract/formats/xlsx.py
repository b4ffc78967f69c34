"""Excel, since 2007."""

from services.ingest_worker.extract import office, sheets
from services.ingest_worker.extract.archive import checked, names
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from shared.errors import Rejected

_BOOKS = ("xl/workbook.xml", "xl/workbook.bin")
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_WITH_MACROS = "application/vnd.ms-excel.sheet.macroenabled.12"
_BINARY = "application/vnd.ms-excel.sheet.binary.macroenabled.12"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet and a paragraph per row, with title, description, language and dates.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    if office.is_ole(data, "EncryptedPackage"):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    says = checked(data, _BOOKS[_BOOKS[1] in names(data)], hints)
    return sheets.read_as("xlsx", data, hints, says)


FORMAT = Format(
    document_type="xlsx",
    media_types=frozenset({_TYPE, _WITH_MACROS, _BINARY}),
    suffixes=frozenset({".xlsx", ".xlsm", ".xltx", ".xlsb"}),
    sniff=lambda data: not names(data).isdisjoint(_BOOKS),
    read=read,
    warm=imports("python_calamine"),
    libraries=("lxml", "python-calamine"),
)
