"""Word 97 to 2003."""

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Extraction, Format, Hints

_TYPE = "application/msword"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown.

    Raises:
        Rejected: code `unsupported` without the office extra, `password` or `damaged`.
    """
    return office.read_as("doc", _TYPE, data, hints, {})


FORMAT = Format(
    document_type="doc",
    media_types=frozenset({_TYPE}),
    suffixes=frozenset({".doc", ".dot"}),
    sniff=lambda data: office.is_ole(data, "WordDocument") and not office.is_ole(data, "__properties_version1.0"),
    read=read,
    libraries=("kreuzberg",),
    extra="office",
)
