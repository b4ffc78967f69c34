"""Reads Word, PowerPoint and Outlook files of the versions 97 to 2003."""

from functools import partial

from services.ingest_worker.extract import office
from services.ingest_worker.extract.format import Format
from services.ingest_worker.extract.ole import OLE

_MESSAGE = "__properties_version1.0"  # a message may have another file's streams, too


def _holds(stream: str, data: bytes) -> bool:
    return office.is_ole(data, stream) and (stream == _MESSAGE or not office.is_ole(data, _MESSAGE))


FORMATS = tuple(
    Format(
        document_type=kind,
        text_format="markdown",
        media_types=frozenset({media_type}),
        begins=OLE,
        suffixes=frozenset(suffixes),
        sniff=partial(_holds, stream),
        read=partial(office.read_as, kind, media_type),
        libraries=("kreuzberg",),
        extra="office",
    )
    for kind, media_type, suffixes, stream in (
        ("doc", "application/msword", (".doc", ".dot"), "WordDocument"),
        ("msg", "application/vnd.ms-outlook", (".msg",), _MESSAGE),
        ("ppt", "application/vnd.ms-powerpoint", (".ppt", ".pps"), "PowerPoint Document"),
    )
)
