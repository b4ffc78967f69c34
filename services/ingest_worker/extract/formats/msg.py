"""Reads Outlook messages."""

from functools import partial

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.ole import OLE

_TYPE = "application/vnd.ms-outlook"

FORMAT = Format(
    document_type="msg",
    text_format="markdown",
    media_types=frozenset({_TYPE}),
    begins=OLE,
    suffixes=frozenset({".msg"}),
    sniff=lambda data: office.is_ole(data, "__properties_version1.0"),
    read=partial(office.read_as, "msg", _TYPE),
    libraries=("kreuzberg",),
    extra="office",
)
