"""PowerPoint 97 to 2003."""

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Extraction, Format, Hints

_TYPE = "application/vnd.ms-powerpoint"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown.

    Raises:
        Rejected: code `unsupported` without the office extra, `password` or `damaged`.
    """
    return office.read_as("ppt", _TYPE, data, hints, {})


FORMAT = Format(
    document_type="ppt",
    media_types=frozenset({_TYPE}),
    suffixes=frozenset({".ppt", ".pps"}),
    sniff=lambda data: office.is_ole(data, "PowerPoint Document"),
    read=read,
    libraries=("kreuzberg",),
    extra="office",
)
