"""Reads PowerPoint files of the versions 97 to 2003."""

from functools import partial

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.ole import OLE

_TYPE = "application/vnd.ms-powerpoint"

FORMAT = Format(
    document_type="ppt",
    text_format="markdown",
    media_types=frozenset({_TYPE}),
    begins=OLE,
    suffixes=frozenset({".ppt", ".pps"}),
    sniff=lambda data: office.is_ole(data, "PowerPoint Document"),
    read=partial(office.read_as, "ppt", _TYPE),
    libraries=("kreuzberg",),
    extra="office",
)
