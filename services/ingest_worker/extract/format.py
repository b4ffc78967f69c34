"""What a format is, and what reading a file gives."""

import importlib
from collections.abc import Callable, Sequence

import msgspec

from shared.contracts import PreparedChunk, TextFormat


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What the sender said about a file; none of it is trusted before the content."""

    filename: str | None = None
    media_type: str | None = None  # with parameters, as declared
    title: str | None = None
    depth: int = 0  # of the containers the file came in
    links: bool = False  # whether the links are wanted, too

    @property
    def name(self) -> str:
        """Return what a sentence calls the file."""
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
    """What a file says. `text` is NFC without control characters, its lines end in a line feed; it is never blank."""

    text: str
    document_type: str  # md, html, pdf, txt …
    text_format: TextFormat = "plain"  # the format's; `extract` sets it
    title: str | None = None  # the document's own, else its file's name
    language: str | None = None  # BCP 47, as the document declares it
    description: str | None = None
    url: str | None = None  # canonical, as the document declares it
    tags: tuple[str, ...] = ()  # as the document declares them
    pages: tuple[int, ...] = ()  # offset in `text` at which each page starts, in characters
    chunks: tuple[PreparedChunk, ...] = ()  # where the file holds chunks that somebody made; `text` is theirs
    created: str | None = None  # as the document declares it, ISO 8601
    modified: str | None = None
    note: str | None = None  # what could not be read, for people
    links: tuple[str, ...] = ()  # as the document has them, where they are wanted
    robots: tuple[str, ...] = ()  # what its meta tags ask of robots


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One format: how it is recognised and how it is read. `FORMAT` of a module in `formats/`."""

    document_type: str
    text_format: TextFormat = "plain"  # how the text that it gives is written
    media_types: frozenset[str]
    suffixes: frozenset[str]
    sniff: Callable[[bytes], bool]  # sure of it from the content alone
    read: Callable[[bytes, Hints], Extraction]  # raises Rejected
    warm: Callable[[], None] = lambda: None  # imports what reading needs
    light: bool = False  # cheap and safe enough to be read in the calling process
    libraries: tuple[str, ...] = ()  # distributions whose version decides the text
    extra: str | None = None  # what must be installed for it, beyond the base


def imports(*modules: str) -> Callable[[], None]:
    """Return what imports the modules, for `warm`."""

    def warm() -> None:
        for module in modules:
            importlib.import_module(module)

    return warm


def laid_out(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the pages' text, and each one's start; a page without text starts where the next one does."""
    starts: list[int] = []
    at = 0
    for page in pages:
        starts.append(at)
        at += len(page) + 2 if page else 0
    text = "\n\n".join(page for page in pages if page)
    return text, tuple(min(start, len(text)) for start in starts)
