"""Reads OpenDocument texts."""

from functools import partial

from services.ingest_worker.extract.format import Format, imports
from services.ingest_worker.extract.opendocument import holds, read_as

FORMAT = Format(
    document_type="odt",
    text_format="markdown",
    media_types=frozenset({"application/vnd.oasis.opendocument.text"}),
    suffixes=frozenset({".odt", ".ott"}),
    sniff=lambda data: holds(data, "text"),
    read=partial(read_as, "odt"),
    warm=imports("lxml.etree"),
    libraries=("lxml",),
)
