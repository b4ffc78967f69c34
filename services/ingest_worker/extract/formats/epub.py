"""Reads EPUB books: the chapters in reading order."""

import re
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zipfile import ZipFile

from services.ingest_worker.extract.archive import named, names, opened, part, root_of
from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.embedded_files import refused
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.html_markdown import declared_charset, page_text
from services.ingest_worker.extract.safe_xml import attribute, parsed, tag, words
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)

_ABOUT = {
    "creator": "author",
    "contributor": "contributor",
    "publisher": "publisher",
    "subject": "keywords",
    "rights": "rights",
    "identifier": "identifier",
}
_OWN = {"title": "title", "description": "description", "language": "language", "date": "created"}
_ENCRYPTION = "META-INF/encryption.xml"
_CONTAINER = "META-INF/container.xml"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the chapters as Markdown, with the book's title, description, language and date.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`.
    """
    with opened(data, hints) as archive:
        container = parsed(part(archive, _CONTAINER, hints))
        root = None if container is None else container.find(".//{*}rootfile")
        path = "" if root is None else root.get("full-path", "")
        package = parsed(part(archive, path, hints)) if path else None
        if package is None:
            raise Rejected(f"{hints.name} is damaged: its package document can't be read", "damaged")
        items = list(package.iterfind("{*}manifest/{*}item"))
        files = {item.get("id"): item.get("href", "") for item in items}
        listing = {item.get("id") for item in items if "nav" in item.get("properties", "").split()}
        locked = _locked(archive, hints)
        labels = {
            normpath(join(dirname(listed), target.partition("#")[0])): label
            for listed, target, label in reversed(list(_contents(archive, path, package, hints)))
        }
        chapters, notes = [], []
        spine = (
            files.get(item.get("idref"), "")
            for item in package.iterfind("{*}spine/{*}itemref")
            if item.get("linear") != "no" or item.get("idref") not in listing  # a list of the chapters, for machines
        )
        for href in dict.fromkeys(unquote(each.partition("#")[0]) for each in spine):
            chapter = normpath(join(dirname(path), href))
            if chapter in locked:
                raise Rejected(f"{hints.name} is encrypted by its publisher (DRM)", "password")
            try:
                source = part(archive, chapter, hints)
                text = decoded(source, Hints(), declared=declared_charset(source))
                says, label = page_text(text).strip(), labels.get(chapter)
                titled = (
                    not says
                    or not label
                    or _HEADING.search(says)
                    or label.casefold() in says[: 2 * len(label)].casefold()
                )
                chapters.append(says if titled else f"# {label}\n\n{says}")
            except Rejected as error:
                notes.append(refused(error, chapter))
    about: dict[str, list[str]] = {}
    for item in package.iterfind("{*}metadata/*"):
        if (name := tag(item)) in _ABOUT and item.text:
            about.setdefault(_ABOUT[name], []).append(item.text)
    return Extraction(
        text=cleaned("\n\n".join(filter(None, chapters))),
        notes=tuple(notes),
        **declared({**about, **named(package.iterfind("{*}metadata/*"), _OWN)}),
    )


def _contents(archive: ZipFile, path: str, package: "_Element", hints: Hints) -> Iterator[tuple[str, str, str]]:
    """Yield the entries of the table of contents: the part that it is in, the target there, and the label."""
    for item in package.iterfind("{*}manifest/{*}item"):
        if item.get("media-type") == "application/x-dtbncx+xml" or "nav" in item.get("properties", "").split():
            listed = normpath(join(dirname(path), unquote(item.get("href", ""))))
            root = root_of(archive, listed, hints)
            lists = [] if root is None else [*root.iter("{*}nav")]
            toc = next((each for each in lists if attribute(each, "type") == "toc"), lists[0] if lists else root)
            for entry in () if toc is None else toc.iter("{*}navPoint", "{*}a"):
                target, label = entry.find("{*}content"), entry.find("{*}navLabel")
                href = entry.get("href", "") if target is None else target.get("src", "")
                yield listed, unquote(href), words(entry if label is None else label)


def _locked(archive: ZipFile, hints: Hints) -> frozenset[str]:
    """Return the encrypted parts. Books without DRM often have encrypted fonts."""
    root = root_of(archive, _ENCRYPTION, hints)
    found = () if root is None else root.iter("{*}CipherReference")
    return frozenset(unquote(reference.get("URI", "")) for reference in found)


FORMAT = Format(
    document_type="epub",
    nests=True,
    media_types=frozenset({"application/epub+zip"}),
    suffixes=frozenset({".epub"}),
    sniff=lambda data: data.startswith(b"PK") and _CONTAINER in names(data),
    read=read,
    libraries=("chardet", "lxml"),
    revision=10,
)
