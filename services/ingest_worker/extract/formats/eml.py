"""Reads emails: the message, then its attachments, as sections."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from functools import partial
from typing import Any

from services.ingest_worker.extract.clean import cleaned, decoded, known_encoding, one_line
from services.ingest_worker.extract.embedded_files import part_texts
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.formats.ics import entries
from services.ingest_worker.extract.html_markdown import page_text
from services.ingest_worker.extract.mail_alternatives import merge_forms
from shared.contracts import Note
from shared.errors import Rejected

_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MESSAGE = re.compile(
    rb"(?:(?:Return-Path|Received|Delivered-To|MIME-Version|From|To|Subject|Date|Message-ID|Content-Type|X-[\w-]+): "
    rb"[^\n]*+\n"
    rb"(?:[ \t][^\n]*+\n)*+){2}",
    re.IGNORECASE,
)
_HEAD = 1024
# Python's parser takes a millisecond for each part, and for each pair of parts within parts.
_MOST_PARTS = 1_000
_MOST_BOUNDARIES = 100  # parts that have parts
_BOUNDARY = re.compile(rb"(?i)boundary\s*+=\s*+\"?([^\"\r\n;]{1,200})")
_CHARSET = re.compile(
    rb"(?im)^content-type:[^\n]{0,200}(?:\n[ \t][^\n]{0,200})*?charset\s*+=\s*+\"?(?!us-ascii)([\w.:-]{1,40})"
)
_BORDER = re.compile(rb"^--([^\r\n]{1,202})", re.MULTILINE)
_LONG = re.compile(rb"(?im)^(content-[\w-]++:(?:[^\n]|\n[ \t]){0,1000}+)(?:[^\n]|\n[ \t])++")  # parameters: n³
# Words of a header in an encoding
_WORDS = re.compile(r"=\?([\w.:*-]{1,40})\?[bq]\?[^?\s]*+\?=(?:\s*+=\?\1\?[bq]\?[^?\s]*+\?=)*+", re.IGNORECASE)
_MAIL = re.compile(rb"(?im)^content-type:\s*+message/")
_SEALED = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
# The ids of what is encrypted, at the beginning
_ENCRYPTED = re.compile(rb".{1,40}?(?:\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03|\x01\x09\x10\x01\x17)", re.DOTALL)
_CONTENT = bytes.fromhex("06092a864886f70d010701")  # the id of what a signed message holds (RFC 5652, section 5.2)
_SIGNATURES = frozenset({"application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature"})
_FORMS = frozenset({"text/x-amp-html", "text/watch-html"})  # of a message that is there as HTML, too
_BODIES = frozenset({"text/plain", "text/html", "text/calendar"})
_REPORTS = frozenset(
    {"message/delivery-status", "message/global-delivery-status", "message/disposition-notification"}
    | {"message/feedback-report"}
)
_MAILS = frozenset({"message/rfc822", "message/global", "text/rfc822-headers"})
_PAGE_FILES = re.compile(r"image/|font/|text/css$|text/javascript$|application/(?:x-)?javascript$")
_SOFT = re.compile(r"^(?!>|-- \r?$)([^\n]*) \r?\n ?(?![>\r\n])", re.MULTILINE)  # a line that goes on in the next one
_PGP = re.compile(
    r"^-----BEGIN PGP (?:SIGNED MESSAGE-----[ \t]*+\r?\n(?:[\w-]++: [^\n]*+\n)*+\r?\n"
    r"|(MESSAGE|SIGNATURE)-----[ \t]*+\r?\n(?:[^\n-][^\n]*+\n|\n)*+-----END PGP \1-----[ \t\r]*+$)",
    re.MULTILINE,
)
_MARKS = re.compile(r"\[cid:[^\]\s]{1,200}\]|(?<=[\w.+-]@)([\w.-]{1,200})<mailto:[^\s<>@]{1,200}@\1>")  # of Outlook
_UU = re.compile(r"^begin [0-7]{3} ([^\r\n]{1,200})\r?\n((?:[ -`]{1,62}\r?\n)++)end[ \t\r]*+$", re.MULTILINE)


def read(data: bytes, hints: Hints) -> Extraction:
    """Return subject, sender, recipients, date and message, then each attachment under its name.

    The subject is the title, too.

    Raises:
        Rejected: code `too_large`: mails are nested too deeply; `unsupported`: the file is not a mail.
    """
    if b"\0" in data[:_HEAD]:  # UTF-16
        data = decoded(data, hints).encode("utf-8", "replace")
    message, notes = message_of(data, hints)
    return extraction(message, notes, hints)


class _Policy(EmailPolicy):
    """Takes a header as it stands where the library fails at it, which lets IndexError and more past.

    Letters in no encoding have the `charset` that the mail's text declares.
    """

    charset: str | None = None

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """Return the parsed header, or its text."""
        try:
            if not value.isascii():  # bytes that the parser let through
                value = decoded(value.encode("utf-8", "surrogateescape"), Hints(), declared=self.charset)
            return super().header_fetch_parse(name, _WORDS.sub(_whole, value))
        except Exception:  # noqa: BLE001 - as above
            return " ".join(value.split())


def _whole(words: re.Match[str]) -> str:
    """Return the words of a header as one: some programs end one within a character."""
    try:
        data = b"".join(each for each, _ in decode_header(words[0]) if isinstance(each, bytes))
    except HeaderParseError:
        return words[0]
    text = data.decode(known_encoding(words[1].partition("*")[0]) or "utf-8", "replace")
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


_POLICY: Any = _Policy()  # its type can't say that it makes an EmailMessage


def message_of(data: bytes, hints: Hints) -> tuple[EmailMessage, list[Note]]:
    """Return the parsed mail, and a note if only the first of its parts were parsed.

    Raises:
        Rejected: code `too_large`: too many parts have parts of their own.
    """
    data = _LONG.sub(rb"\1", data)
    named = {name.strip() for name in _BOUNDARY.findall(data)}
    if len(named) + len(_MAIL.findall(data)) > _MOST_BOUNDARIES:
        raise Rejected(f"{hints.name} has more than {_MOST_BOUNDARIES} parts with parts of their own", "too_large")
    borders = [line.start() for line in _BORDER.finditer(data) if line[1].strip() in named]
    notes: list[Note] = []
    if len(borders) > _MOST_PARTS:
        data = data[: borders[_MOST_PARTS]]
        message = f"only the first {_MOST_PARTS} of {len(borders)} parts were read"
        notes.append(Note(code="too_large", place="", message=message))
    charset = _CHARSET.search(data)
    policy = _POLICY.clone(charset=charset[1].decode() if charset else None)
    return BytesParser(EmailMessage, policy=policy).parsebytes(data), notes


def extraction(message: EmailMessage, notes: list[Note], hints: Hints) -> Extraction:
    """Return the text and properties of a parsed mail, as `read` does; its notes begin with `notes`."""
    heads = [f"{name}: {value}" for name in _HEADERS if (value := header(message, name))]
    mail = _Mail(hints)
    bodies = [*mail.texts(message)]
    texts, failed = part_texts(mail.attached, hints) if mail.attached else ([], [])
    return Extraction(
        text=cleaned("\n\n".join(["\n".join(heads), *filter(str.strip, bodies), *texts])),
        title=header(message, "Subject"),
        created=date(message),
        notes=(*notes, *mail.unread, *failed),
        file={"author": [header(message, "From")]},
    )


class _Mail:
    """Walks the tree of a mail's parts, and collects what belongs to no body."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self.attached: list[tuple[str, Callable[[], bytes]]] = []
        self.unread: list[Note] = []

    def texts(self, part: MIMEPart) -> Iterator[str]:
        """Yield the texts that a mail program shows, in order."""
        kind = part.get_content_type()
        inner = [*part.iter_parts()] if part.is_multipart() else []
        if kind in _REPORTS:
            yield "\n\n".join(block.as_string() for block in inner) if inner else _body(part, self._hints)
        elif kind == "multipart/encrypted" or (kind in _SEALED and _ENCRYPTED.match(_bytes(part))):
            self._note_sealed()
        elif kind == "multipart/alternative" and inner:
            yield from self._best(inner)
        elif kind.startswith("multipart/") and inner:
            for each in inner if kind != "multipart/related" else filter(_is_read, inner):
                yield from self.texts(each)
        elif (kind in _BODIES and not _is_file(part)) or kind.startswith("multipart/"):  # an empty or broken container
            yield _PGP.sub(self._unsealed, _UU.sub(self._unpacked, _body(part, self._hints), _MOST_PARTS))
        elif kind in _SEALED and (inside := _signed(_bytes(part))):
            yield from self.texts(message_of(inside, self._hints)[0])
        elif kind not in _SIGNATURES | _FORMS:
            number, suffix = len(self.attached) + 1, ".eml" if kind in _MAILS else ""
            name = one_line(part.get_filename(), 200) or f"attachment {number}{suffix}"
            self.attached.append((name, partial(_bytes, part)))

    def _note_sealed(self) -> None:
        self.unread.append(Note(code="password", place="", message="an encrypted message was not read"))

    def _unsealed(self, block: re.Match[str]) -> str:
        """Leave out what PGP writes around a text that it signs, or the text that it encrypts."""
        if block[1] == "MESSAGE":
            self._note_sealed()
        return ""

    def _unpacked(self, file: re.Match[str]) -> str:
        """Take a file that older programs wrote into the text (uuencode)."""
        lines = file[2].splitlines()
        counts = [(ord(line[0]) - 32) & 63 for line in lines]  # of bytes
        if any(not 4 * n <= 3 * len(line[1:]) <= 4 * n + 11 for n, line in zip(counts, lines, strict=True)):
            return file[0]
        try:
            data = b"".join(map(binascii.a2b_uu, lines))
        except binascii.Error:
            return file[0]
        self.attached.append((file[1].strip(), lambda: data))
        return ""

    def _best(self, parts: list[MIMEPart]) -> Iterator[str]:
        """Yield what the alternatives say; then the parts beside them."""
        told: dict[str, str] = {}
        beside: list[str] = []
        for part in parts:
            kind = _shown_as(part)
            found = "\n\n".join(self.texts(part))
            if kind is None:
                beside.append(found)
            elif found.strip():
                told.setdefault(kind, found)
        yield merge_forms(told.get("text/plain", ""), told.get("text/html", ""))
        yield from beside


def _shown_as(part: MIMEPart) -> str | None:
    """Return text/plain or text/html for an alternative form of the message; None for a part beside it."""
    kinds = {each.get_content_type() for each in part.walk() if not _is_file(each)}
    return next((kind for kind in ("text/html", "text/plain") if kind in kinds), None)


def _is_file(part: MIMEPart) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_filename() is not None


def _is_read(part: MIMEPart) -> bool:
    """Return whether a part of a page is more than a picture or a style that the page shows."""
    return _PAGE_FILES.match(part.get_content_type()) is None or part.get_content_disposition() == "attachment"


def header(message: MIMEPart, name: str) -> str | None:
    """Return a header's value on one line; None if it is missing."""
    return one_line(str(message[name] or ""), 1000)


def date(message: EmailMessage) -> str | None:
    """Return the date in ISO 8601; None if it is missing or broken."""
    try:
        return str(message["Date"].datetime.isoformat())
    except AttributeError:
        return None


def _body(part: MIMEPart, hints: Hints) -> str:
    data = _bytes(part)
    try:
        # Without a charset, or with a wrong one, the encoding is guessed.
        text = decoded(data, hints, declared=part.get_content_charset())
    except Rejected:
        text = data.decode("utf-8", "replace")
    match part.get_content_subtype():
        case "html":
            return page_text(text, base=header(part, "Content-Location"))  # of a saved page
        case "calendar":
            return entries(text)[0]
        case _:
            torn = part.get_param("format") == "flowed" and part.get_param("delsp") == "yes"  # words, too (RFC 3676)
            return _MARKS.sub(r"\1", _SOFT.sub(r"\1", text) if torn else text)


def _bytes(part: MIMEPart) -> bytes:
    if part.is_multipart():
        first, *others = part.iter_parts()
        # Some programs encode a mail within a mail, which no standard allows, and the library leaves as it is.
        if others or first.keys() or first.is_multipart() or part["Content-Transfer-Encoding"] != "base64":
            return b"\n".join(inner.as_bytes() for inner in (first, *others))
        first["Content-Transfer-Encoding"] = "base64"
        part = first
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _signed(data: bytes) -> bytes:
    """Return the mail within a signature that is one file (opaque S/MIME); b"" if it is encrypted or none."""
    at = data.find(_CONTENT) + len(_CONTENT)
    found: list[bytes] = []
    while len(_CONTENT) <= at < len(data) - 2 and data[at] in (0xA0, 0x24, 0x04):
        tag, size, at = data[at], data[at + 1], at + 2
        if size > 0x80:
            at, size = at + size - 0x80, int.from_bytes(data[at : at + size - 0x80])
        if tag == 0x04:  # the others hold more of these
            found.append(data[at : at + size])
            at += size
    return b"".join(found)


FORMAT = Format(
    document_type="eml",
    nests=True,
    media_types=frozenset({"message/rfc822"}),
    suffixes=frozenset({".eml", ".mht", ".mhtml", ".p7s"}),
    sniff=lambda data: _MESSAGE.match(data, 0, 8 * 1024) is not None,
    read=read,
    libraries=("lxml",),
    revision=11,
)
