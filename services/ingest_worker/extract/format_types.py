"""The types `Format` (how to recognise and read a format), `Hints` and `Extraction`."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from shared.contracts import Note, PreparedChunk, TextFormat

# Before the heading of a sheet, a message, a file within the file: what is said there holds up to the next one. Two
# stand before those within such a part, three before those within these. `extract` takes them out: `Extraction.parts`.
PART: Final = f"\U0010fffd{os.urandom(8).hex()}"  # in no file, because it is another one in each process


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What the sender declared about a file; its content takes precedence."""

    filename: str | None = None
    media_type: str | None = None  # with parameters, as declared
    title: str | None = None
    depth: int = 0  # number of containers that the file is nested in
    links: bool = False  # also extract the links

    @property
    def name(self) -> str:
        """Return the file's name for error messages."""
        name = self.filename or self.title or ""
        return " ".join(name.split())[:200] or "the document"

    @property
    def suffix(self) -> str:
        """Return the file name's suffix, lower case with its dot, or ''."""
        stem, dot, suffix = (self.filename or "").rpartition("/")[2].rpartition(".")
        return f"{dot}{suffix.lower()}" if stem else ""

    @property
    def essence(self) -> str:
        """Return the media type without parameters, lower case, or ''."""
        return (self.media_type or "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """Return the media type's charset parameter."""
        for parameter in (self.media_type or "").split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                return value.strip().strip("\"'") or None
        return None


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """The text and properties of a file. `text` is in NFC, has no control characters, and is never blank."""

    text: str
    document_type: str = ""  # md, html, pdf, txt …; set by `extract`
    text_format: TextFormat = "plain"  # set by `extract`
    title: str | None = None  # the document's own, else the file name
    language: str | None = None  # BCP 47, as the document declares it
    description: str | None = None
    url: str | None = None  # canonical, as the document declares it
    tags: tuple[str, ...] = ()  # as the document declares them
    pages: tuple[int, ...] = ()  # offset in `text` at which each page starts, in characters
    parts: tuple[tuple[int, int], ...] = ()  # offset and depth of each sheet, message, file within; set by `extract`
    chunks: tuple[PreparedChunk, ...] = ()  # the caller's own chunks, if the file is a list of them
    created: str | None = None  # as the document declares it, ISO 8601
    modified: str | None = None
    notes: tuple[Note, ...] = ()  # what could not be read, or was left out; `extract` keeps the first MOST_NOTES
    note_count: int = 0  # of all; set by `extract`
    file: dict[str, Any] = {}  # what else the file says about itself; `extract` bounds it, and adds the dates
    links: tuple[str, ...] = ()  # as written in the document; only if the hints ask for links
    robots: tuple[str, ...] = ()  # contents of the robots meta tags


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """How to recognise and read one format. Each module in `formats/` has one, named `FORMAT`, or `FORMATS`."""

    document_type: str
    text_format: TextFormat = "markdown"  # of the text that `read` returns: plain, in sections, or Markdown
    media_types: frozenset[str]
    suffixes: frozenset[str]
    sniff: Callable[[bytes], bool] = lambda _: False  # whether the content alone proves the format
    begins: bytes = b""  # with what each file of it begins; a text without that is read as text
    read: Callable[[bytes, Hints], Extraction]  # raises Rejected
    light: bool = False  # cheap and safe to read in the calling process; if not, `limits.check_light` raises
    libraries: tuple[str, ...] = ()  # distributions whose version affects the text
    revision: int = 1  # raise it when the same file gives a different text
    nests: bool = False  # reads files of other formats inside the file
    extra: str | None = None  # the optional dependency group that it needs


def as_part(name: str, text: str) -> str:
    """Return the text of a part under its name, with all parts in it one level deeper."""
    inner = f"\n\n{text}".replace(f"\n{PART}", f"\n{PART}{PART}")
    return f"{PART}# {' '.join(name.split())}{inner}"


def laid_out(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the pages' joined text and each page's offset; a page without text starts where the next one does."""
    starts: list[int] = []
    at = 0
    for page in pages:
        starts.append(at)
        at += len(page) + 2 if page else 0
    text = "\n\n".join(page for page in pages if page)
    return text, tuple(min(start, len(text)) for start in starts)
