"""Reads TNEF (winmail.dat), in which Outlook sends attachments, and sometimes the message."""

from collections.abc import Iterator
from functools import partial

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.embedded_files import part_texts
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from shared.contracts import Note

# [MS-OXTNEF] 2.1, and [MS-OXPROPS] for the tags of bodies: https://learn.microsoft.com/openspecs/exchange_server_protocols/ms-oxtnef
_SIGNATURE = b"\x78\x9f\x3e\x22"
_HEAD = 6  # bytes: signature and key
_FIELD = 9  # bytes: level, attribute and length
_CHECKSUM = 2  # bytes
_SUBJECT, _BODY, _PROPERTIES, _NEXT, _NAME, _DATA = 0x8004, 0x800C, 0x9003, 0x9002, 0x8010, 0x800F
_BODIES = (b"\x02\x01\x09\x10", b"\x02\x01\x13\x10", b"\x1e\x00\x00\x10", b"\x1f\x00\x00\x10")  # RTF, HTML, plain


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the message's plain text, then each attachment under its name; a note says if it has another body."""
    subject, body, rich = "", "", False
    files: list[tuple[str, bytes]] = []
    for kind, value in _attributes(data):
        if kind == _SUBJECT:
            subject = _text(value, hints)
        elif kind == _BODY:
            body = _text(value, hints)
        elif kind == _PROPERTIES:
            rich = any(tag in value for tag in _BODIES)
        elif kind in (_NEXT, _NAME, _DATA) and (kind == _NEXT or not files):
            files.append((f"attachment {len(files) + 1}", b""))
        if kind == _NAME:
            files[-1] = one_line(_text(value, hints)) or files[-1][0], files[-1][1]
        elif kind == _DATA:
            files[-1] = files[-1][0], value
    attached = [(name, partial(bytes, value)) for name, value in files if value]
    texts, unread = part_texts(attached, hints) if attached else ([], [])
    if rich and not body:
        message = f"{hints.name} holds the message in a form that was not read"
        unread.append(Note(code="unsupported", place="", message=message))
    return Extraction(
        text=cleaned("\n\n".join(filter(None, [body, *texts]))),
        title=one_line(subject),
        notes=tuple(unread),
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = _HEAD
    while at + _FIELD <= len(data):
        kind = int.from_bytes(data[at + 1 : at + 3], "little")
        end = at + _FIELD + int.from_bytes(data[at + 5 : at + _FIELD], "little")
        yield kind, data[at + _FIELD : end]
        at = end + _CHECKSUM


def _text(value: bytes, hints: Hints) -> str:
    return decoded(value.partition(b"\0")[0], hints)


FORMAT = Format(
    document_type="tnef",
    nests=True,
    media_types=frozenset({"application/ms-tnef", "application/vnd.ms-tnef"}),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(_SIGNATURE),
    read=read,
    revision=2,
)
