"""Reads emails: the message, then its attachments, as sections."""

import re
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints
from services.ingest_worker.extract.page import page_text, tree_of
from services.ingest_worker.extract.parts import note, part_texts
from shared.errors import Rejected

_HEADERS = ("From", "To", "Cc", "Date")
_MESSAGE = re.compile(
    rb"(?:(?:Return-Path|Received|Delivered-To|MIME-Version|From|To|Subject|Date|Message-ID|X-[\w-]+): [^\n]*+\n"
    rb"(?:[ \t][^\n]*+\n)*+){2}",
    re.IGNORECASE,
)
_HEAD = 1024
# Python's parser takes a millisecond for each part, and for each pair of parts within parts.
_MOST_PARTS = 1_000
_MOST_BOUNDARIES = 100  # parts that have parts
_BOUNDARY = re.compile(rb"(?i)boundary\s*+=\s*+\"?([^\"\r\n;]{1,200})")
_BORDER = re.compile(rb"^--([^\r\n]{1,202})", re.MULTILINE)
_LONG = re.compile(rb"(?im)^(content-[\w-]++:(?:[^\n]|\n[ \t]){0,1000}+)(?:[^\n]|\n[ \t])++")  # parameters: n³
_MAIL = re.compile(rb"(?im)^content-type:\s*+message/")
_SIGNATURES = frozenset({"application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature"})


def read(data: bytes, hints: Hints) -> Extraction:
    """Return sender, recipients, date and message, then each attachment under its name; the subject is the title.

    Raises:
        Rejected: code `too_large`: mails are nested too deeply; `unsupported`: the file is not a mail.
    """
    if b"\0" in data[:_HEAD]:  # UTF-16
        data = decoded(data, hints).encode("utf-8", "replace")
    data, found = _bounded(data, hints)
    message = BytesParser(EmailMessage, policy=policy.default).parsebytes(data)
    heads = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    body = message.get_body(("plain", "html"))
    attached = [
        (_name(part, number), _bytes(part))
        for number, part in enumerate(message.iter_attachments(), start=1)
        if part.get_content_type() not in _SIGNATURES
    ]
    texts, unread = part_texts(attached, hints) if attached else ([], [])
    if found > _MOST_PARTS:
        unread.insert(0, f"only the first {_MOST_PARTS} of {found} parts were read")
    return Extraction(
        text=cleaned("\n\n".join(["\n".join(heads), _body(body, hints), *texts])),
        document_type="eml",
        title=_header(message, "Subject"),
        created=_date(message),
        note=note(unread),
    )


def _bounded(data: bytes, hints: Hints) -> tuple[bytes, int]:
    """Return the mail up to its part number `_MOST_PARTS`, and how many parts it has."""
    data = _LONG.sub(rb"\1", data)
    named = {name.strip() for name in _BOUNDARY.findall(data)}
    if len(named) + len(_MAIL.findall(data)) > _MOST_BOUNDARIES:
        raise Rejected(f"{hints.name} has more than {_MOST_BOUNDARIES} parts with parts of their own", "too_large")
    borders = [line.start() for line in _BORDER.finditer(data) if line[1].strip() in named]
    return data[: borders[_MOST_PARTS]] if len(borders) > _MOST_PARTS else data, len(borders)


def _header(message: EmailMessage, name: str) -> str | None:
    try:
        return one_line(str(message[name] or ""), 1000)
    except Exception:  # noqa: BLE001 - the library lets IndexError and more past on a broken header
        return None


def _date(message: EmailMessage) -> str | None:
    try:
        return str(message["Date"].datetime.isoformat())
    except Exception:  # noqa: BLE001 - as above
        return None


def _body(part: MIMEPart | None, hints: Hints) -> str:
    if part is None:
        return ""
    data = _bytes(part)
    try:
        # Without a charset, or with a wrong one, the encoding is guessed.
        text = decoded(data, hints, declared=part.get_content_charset())
    except Rejected:
        text = data.decode("utf-8", "replace")
    return page_text(tree_of(text.encode("utf-8", "replace"))[0]) if part.get_content_subtype() == "html" else text


def _bytes(part: MIMEPart) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return b"\n".join(inner.as_bytes() for inner in part.iter_parts())
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _name(part: MIMEPart, number: int) -> str:
    mail = part.get_content_type() == "message/rfc822"
    return one_line(part.get_filename(), 200) or f"attachment {number}{'.eml' if mail else ''}"


FORMAT = Format(
    document_type="eml",
    nests=True,
    text_format="markdown",
    media_types=frozenset({"message/rfc822"}),
    suffixes=frozenset({".eml", ".mht", ".mhtml", ".p7s"}),
    sniff=lambda data: _MESSAGE.match(data, 0, 8 * 1024) is not None,
    read=read,
    libraries=("lxml",),
)
