"""Reads OpenDocument texts and presentations."""

from functools import partial

from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.opendocument import holds, read_as

FORMATS = tuple(
    Format(
        document_type=document_type,
        text_format="markdown",
        media_types=frozenset({f"application/vnd.oasis.opendocument.{kind}"}),
        suffixes=frozenset(suffixes),
        sniff=partial(holds, kind=kind),
        read=partial(read_as, document_type),
        warm=("lxml.etree",),
        libraries=("lxml",),
    )
    for document_type, kind, suffixes in (
        ("odt", "text", (".odt", ".ott", ".fodt")),
        ("odp", "presentation", (".odp", ".otp", ".fodp")),
    )
)
