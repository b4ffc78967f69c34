"""Extracts text from the bytes of a file. Pure; run it in a process that can be killed."""

import importlib
import pkgutil
import re
from itertools import accumulate
from typing import Final

import msgspec

from services.ingest_worker.extract import formats, limits, ole
from services.ingest_worker.extract.archive import names
from services.ingest_worker.extract.clean import decoded, one_line
from services.ingest_worker.extract.document_properties import file_properties
from services.ingest_worker.extract.flat_office import contained
from services.ingest_worker.extract.format_types import PART, Extraction, Format, Hints
from services.ingest_worker.extract.reader_fingerprints import Readers
from shared.contracts import MOST_NOTES
from shared.errors import Rejected

__all__ = ["FORMATS", "READERS", "Extraction", "Format", "Hints", "detect", "extract"]

_LOADED = [
    importlib.import_module(f"{formats.__name__}.{module.name}") for module in pkgutil.iter_modules(formats.__path__)
]
FORMATS: tuple[Format, ...] = tuple(
    form for each in _LOADED for form in getattr(each, "FORMATS", None) or (each.FORMAT,)
)
_TEXT = next(form for form in FORMATS if form.document_type == "txt")
_TABLE = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<(?:table|div|meta|style|font)[\s>]", re.IGNORECASE)
_PART = re.compile(rf"^(?:{PART})++(?=# )", re.MULTILINE)
_PANIC = "PanicException"  # PyO3 raises it for a Rust library's bug; it is not a subclass of Exception
_LONGEST_PLACE: Final = 200  # characters
_LONGEST_MESSAGE: Final = 300
_SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})


READERS = Readers(FORMATS)


def detect(data: bytes, hints: Hints) -> Format:
    """Return the format: by content, else by the declared media type, else by name, else plain text.

    A text under the name of an old Office file is a text: other programs use those suffixes, too.
    """
    try:
        for form in FORMATS:
            if data.startswith(form.begins) and form.sniff(data):
                return form
    finally:
        names.cache_clear()
    form = _declared(hints)
    return _plain(data, form) if form.begins and not data.startswith(form.begins) else form


def _declared(hints: Hints) -> Format:
    if hints.essence not in _SAYS_NOTHING:
        for form in FORMATS:
            if hints.essence in form.media_types:
                return form
    return next((form for form in FORMATS if hints.suffix in form.suffixes), _TEXT)


def _plain(data: bytes, declared: Format) -> Format:
    try:
        decoded(data, Hints())
    except Rejected:
        return declared
    # What programs export as a workbook is often a table with tabs, or of HTML.
    kind = "html" if _TABLE.match(data) else "csv" if declared.document_type in ("xls", "xlsx") else "txt"
    return next(form for form in FORMATS if form.document_type == kind)


def extract(data: bytes, hints: Hints, most_text: int = limits.MOST_TEXT, form: Format | None = None) -> Extraction:
    """Return the file's text and properties. The text may have `most_text` characters.

    `form` is what `detect` says of the file, if it was asked before.

    Raises:
        Rejected: code `empty`, `unsupported`, `damaged`, `password`, `timeout` or `too_large`;
            the sentence names the file.
    """
    if data.startswith(ole.OLE) and ole.is_locked(data):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    try:
        whole, data = data, contained(data)
        form = form if form is not None and data is whole else detect(data, hints)
        extraction = _bounded(form.read(data, hints), hints)
        text, parts = (extraction.text, ()) if hints.depth else _parted(extraction.text)
        about = {"document_type": form.document_type, "text_format": form.text_format}
        extraction = msgspec.structs.replace(extraction, text=text, parts=parts, **about)
    except RecursionError:  # in our code or in a library
        raise Rejected(f"{hints.name} is damaged: it is nested too deeply", "damaged") from None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise Rejected(f"{hints.name} is damaged: it crashed its parser", "damaged") from error
    if len(extraction.text) > most_text:
        found = f"{len(extraction.text):,} characters of text"
        raise Rejected(f"{hints.name} holds {found}, more than the {most_text:,} of SLUICE_MAX_TEXT", "too_large")
    limits.check_pages(hints.name, len(extraction.pages))
    if not extraction.text.strip():
        if any(note.code == "timeout" for note in extraction.notes):
            raise Rejected(f"{hints.name} took longer than {limits.seconds()} to read", "timeout")
        raise Rejected(f"{hints.name} holds no readable text", "empty")
    if extraction.title:
        return extraction
    name = (hints.filename or "").rpartition("/")[2]
    stem = name[: len(name) - len(hints.suffix)]  # the suffix is in small letters
    return msgspec.structs.replace(extraction, title=one_line(stem) or one_line(hints.title))


def _parted(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the text without the marks of its parts, and the offset and depth of each part."""
    marks = [*_PART.finditer(text)] if PART in text else []
    before = accumulate((len(mark[0]) for mark in marks), initial=0)
    parts = tuple((mark.start() - shift, len(mark[0]) // len(PART)) for mark, shift in zip(marks, before, strict=False))
    return (_PART.sub("", text) if marks else text), parts[: limits.MOST_PAGES]


def _bounded(extraction: Extraction, hints: Hints) -> Extraction:
    """Return the extraction of a file with its first notes and properties; of a file within it, with all notes."""
    notes = extraction.notes if hints.depth else extraction.notes[:MOST_NOTES]
    short = (
        msgspec.structs.replace(
            each, place=_shortened(each.place, _LONGEST_PLACE), message=_shortened(each.message, _LONGEST_MESSAGE)
        )
        for each in notes
    )
    about = file_properties({"created": extraction.created, "modified": extraction.modified, **extraction.file})
    return msgspec.structs.replace(extraction, notes=tuple(short), note_count=len(extraction.notes), file=about)


def _shortened(text: str, most: int) -> str:
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
