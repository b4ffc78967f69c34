"""Reads plain text in any usual encoding, including source code and logs; reStructuredText, AsciiDoc and Org."""

import re
from collections.abc import Callable
from functools import partial

import msgspec

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.formats.json import records
from services.ingest_worker.extract.lightweight_markup import of_adoc, of_org, of_rst, of_tex, of_wiki
from shared.errors import Rejected

_MARKUP_FOR_MACHINES = b"%!PS"  # PostScript: a program, with nothing worth retrieving
_KINDS = {
    "a HEIF image": re.compile(rb"....ftyp(?:hei|hev|mif1|msf1|avi[fs])", re.DOTALL),
    "a video or audio file": re.compile(rb"....ftyp|ID3|OggS|fLaC|\x1aE\xdf\xa3|RIFF....(?:WAVE|AVI )", re.DOTALL),
    "an archive other than ZIP": re.compile(rb"\x1f\x8b\x08|7z\xbc\xaf|Rar!\x1a|BZh\d1AY|\xfd7zXZ|\x28\xb5\x2f\xfd"),
    "a database": re.compile(rb"SQLite format 3\0|\0\x01\0\0Standard (?:Jet|ACE) DB"),
}
_HEAD = 16 * 1024  # characters in which a title is looked for
_TITLES = {
    ".rst": re.compile(r"^[ \t]?(?P<title>\w[^\n]*)\n(?:={3,}|-{3,}|~{3,}|#{3,}|\*{3,}|\^{3,}|\+{3,})$", re.MULTILINE),
    ".adoc": re.compile(r"^= (?P<title>\S[^\n]*)$", re.MULTILINE),
    ".asciidoc": re.compile(r"^= (?P<title>\S[^\n]*)$", re.MULTILINE),
    ".org": re.compile(r"^#\+title:[ \t]*(?P<title>\S[^\n]*)$", re.MULTILINE | re.IGNORECASE),
    ".tex": re.compile(r"\\title\{(?P<title>[^{}]{1,500})\}"),
}
_TEX = (".tex", ".bib")
_ABOUT = 2_000  # characters in which a document says who wrote it
_FIELD = re.compile(r"^(?::|#\+)(?P<name>[A-Za-z][\w -]{0,40}):[ \t]+(?P<value>\S[^\n]*)$", re.MULTILINE)
_AUTHOR = re.compile(r"= [^\n]+\n(?P<author>[^\W\d][^\n:<=]{1,100}?)(?: <[^\n>]*>)?\n")
_CODED = re.compile(r"(?<!\\)\\u([0-9A-Fa-f]{4})")  # a character in a file of Java's properties
# The beginning of a line of a log: a time, a level, or the address of a client.
_ENTRY = re.compile(
    r"^\u200e?(?:[\[(<]?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/.]\w{2,3}[-/.]\d{2,4}|\d\d:\d\d:\d\d"
    r"|\d{1,2}[/.]\d{1,2}[/.]\d{2,4},? \d{1,2}:\d\d"
    r"|\d{4}(?:[./]|\. |년 )\d{1,2}(?:[./]|\. |월 )\d{1,2}[.일]?,? \D{0,4}\d{1,2}:\d\d"
    r"|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d)"
    r"|(?:time|ts|level|date)=|[IWEF]\d{4} \d\d:\d\d|<\d{1,3}>\d? ?|\d{10}(?:\.\d{1,9})?\s"
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b"
    r"|[\w.:-]{3,45} \S{1,50} \S{1,50} \[\d\d/\w{3}/\d{4})",
    re.MULTILINE,
)
_LEAST_ENTRIES = 4
_CHAT = re.compile(r"[^:\n]{1,25}:\d\d(?::\d\d)?[^:\n]{1,60}?: ?(?=\S)")  # a time, and who says what


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text unchanged, but with a blank line between the entries of a log; TeX gives the title.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    return _read_as("txt", partial(_apart, named=hints.suffix == ".log"), data, hints)


def _read_as(document_type: str, marked: Callable[[str], str], data: bytes, hints: Hints) -> Extraction:
    """Return the text as `marked` gives it; reStructuredText, AsciiDoc, Org and TeX give title, author and more."""
    if data.startswith(_MARKUP_FOR_MACHINES):
        raise Rejected(f"{hints.name} is neither plain text nor in a supported format", "unsupported")
    for kind, sign in _KINDS.items():
        if sign.match(data):
            raise Rejected(f"{hints.name} is {kind}, which is not supported", "unsupported")
    text = decoded(data, hints)
    if hints.suffix == ".properties":
        text = _CODED.sub(lambda code: chr(int(code[1], 16)), text)
    if hints.suffix in _TEX:
        text = of_tex(text, comments=hints.suffix == ".tex")
    text = cleaned(text)
    named = _TITLES[hints.suffix].search(text, 0, _HEAD) if hints.suffix in _TITLES else None
    fields = _FIELD.finditer(text, 0, _ABOUT) if document_type != "txt" else ()
    author = _AUTHOR.match(text) if document_type == "adoc" else None
    return Extraction(
        text=cleaned(marked(text)),
        title=one_line(named["title"]) if named else None,
        file={
            **({"author": author["author"]} if author else {}),
            **{name: found["value"] for found in fields if (name := found["name"].lower()) != "title"},
        },
    )


def _apart(text: str, *, named: bool = False) -> str:
    # A log of objects has any name.
    return (records(text) if text.startswith("{") and "\n{" in text[:_HEAD] else "") or _logged(text, named=named)


def _logged(text: str, *, named: bool) -> str:
    """Return a log with a blank line before each entry; what follows an entry, as a traceback does, belongs to it.

    A text that isn't `named` as one is one if it has many entries, or nothing else.
    """
    if not _ENTRY.search(text, 0, _HEAD) or ("\n\n" in text[:_HEAD] and not named):
        return text
    lines = text.split("\n")
    begins = [_ENTRY.match(line) is not None for line in lines]
    entries, others = sum(begins), sum(bool(line) and not line[0].isspace() for line in lines)  # traces are indented
    says = [_CHAT.match(line) is not None for line, entry in zip(lines, begins, strict=True) if entry]
    chat = begins[0] and entries > 1 and sum(says) >= entries - 1  # the first one may be of the program
    if not (named or chat) and (3 * entries < others or entries < min(others, _LEAST_ENTRIES)):
        return text
    return "\n".join(
        f"\n{line}" if entry and at and lines[at - 1] else line
        for at, (line, entry) in enumerate(zip(lines, begins, strict=True))
    )


_TEXT = Format(
    document_type="txt",
    text_format="plain",
    media_types=frozenset({"text/plain"}),
    suffixes=frozenset({".txt", ".text", ".log", ".tex", ".py"}),
    read=read,
    light=True,
    libraries=("chardet",),
    revision=12,
)

FORMATS = (
    _TEXT,
    *(
        msgspec.structs.replace(
            _TEXT,
            document_type=kind,
            text_format="markdown",
            media_types=frozenset(types),
            suffixes=frozenset(suffixes),
            read=partial(_read_as, kind, marked),
        )
        for kind, marked, types, suffixes in (
            ("rst", of_rst, ("text/x-rst", "text/prs.fallenstein.rst"), (".rst",)),
            ("adoc", of_adoc, ("text/asciidoc", "text/x-asciidoc"), (".adoc", ".asciidoc")),
            ("org", of_org, ("text/org", "text/x-org"), (".org",)),
            ("wiki", of_wiki, ("text/x-wiki",), (".wiki", ".mediawiki")),
        )
    ),
)
