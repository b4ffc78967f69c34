"""Reads Word files of the versions 97 to 2003."""

from functools import partial

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.ole import OLE

_TYPE = "application/msword"

FORMAT = Format(
    document_type="doc",
    text_format="markdown",
    media_types=frozenset({_TYPE}),
    begins=OLE,
    suffixes=frozenset({".doc", ".dot"}),
    sniff=lambda data: office.is_ole(data, "WordDocument") and not office.is_ole(data, "__properties_version1.0"),
    read=partial(office.read_as, "doc", _TYPE),
    libraries=("kreuzberg",),
    extra="office",
)
