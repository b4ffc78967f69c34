"""Reads OpenDocument presentations, with a heading per slide."""

from functools import partial

from services.ingest_worker.extract.format import Format, imports
from services.ingest_worker.extract.opendocument import holds, read_as

FORMAT = Format(
    document_type="odp",
    text_format="markdown",
    media_types=frozenset({"application/vnd.oasis.opendocument.presentation"}),
    suffixes=frozenset({".odp", ".otp"}),
    sniff=lambda data: holds(data, "presentation"),
    read=partial(read_as, "odp"),
    warm=imports("lxml.etree"),
    libraries=("lxml",),
)
