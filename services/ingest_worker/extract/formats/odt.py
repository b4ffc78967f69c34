"""OpenDocument texts."""

import importlib
from functools import partial

from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.opendocument import holds, read_as

FORMAT = Format(
    document_type="odt",
    media_types=frozenset({"application/vnd.oasis.opendocument.text"}),
    suffixes=frozenset({".odt", ".ott"}),
    sniff=lambda data: holds(data, "text"),
    read=partial(read_as, "odt"),
    warm=lambda: importlib.import_module("lxml.etree") and None,
    libraries=("lxml",),
)
