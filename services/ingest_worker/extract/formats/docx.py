"""Word, since 2007."""

from services.ingest_worker.extract import office
from services.ingest_worker.extract.archive import checked, names
from services.ingest_worker.extract.format import Extraction, Format, Hints

_DOCUMENT = "word/document.xml"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown, with title, description, language and dates.

    Raises:
        Rejected: code `unsupported` without the office extra, `password`, `damaged` or `too_large`.
    """
    says = {} if office.is_ole(data, "EncryptedPackage") else checked(data, _DOCUMENT, hints)
    return office.read_as("docx", _TYPE, data, hints, says)


FORMAT = Format(
    document_type="docx",
    media_types=frozenset({_TYPE, "application/vnd.ms-word.document.macroenabled.12"}),
    suffixes=frozenset({".docx", ".docm", ".dotx", ".dotm"}),
    sniff=lambda data: _DOCUMENT in names(data),
    read=read,
    libraries=("kreuzberg",),
    extra="office",
)
