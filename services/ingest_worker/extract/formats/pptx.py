"""PowerPoint, since 2007: a page per slide, with its tables and notes."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from zipfile import ZipFile

from services.ingest_worker.extract import office
from services.ingest_worker.extract.archive import names, opened, part, properties
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.declared import declared
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports, laid_out
from services.ingest_worker.extract.markup import parsed, tag
from services.ingest_worker.extract.parts import note
from services.ingest_worker.extract.rows import table
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

_SHOW = "ppt/presentation.xml"
_TYPE = "application/vnd.openxmlformats-officedocument.presentationml."
_RELATION = "{*}Relationship"
_ID = re.compile(r"\{.*relationships\}id")
_TITLES = frozenset({"title", "ctrTitle"})
_FRAME = frozenset({"sldNum", "dt", "ftr", "hdr"})  # page numbers, dates, headers: the same on each slide


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the slides in their order: titles as headings, text, tables, notes.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    if office.is_ole(data, "EncryptedPackage"):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    with opened(data, hints) as archive:
        says = properties(archive, hints)
        slides: list[str] = []
        unread: list[str] = []
        for path in _slides(archive, hints):
            try:
                slides.append(cleaned("\n\n".join(_slide(archive, path, hints))))
            except Rejected as error:
                slides.append("")
                unread.append(error.sentence)
    text, starts = laid_out(slides)
    return Extraction(
        text=text,
        document_type="pptx",
        pages=starts,
        **declared(says, text),
        note=note(unread),
    )


def _slides(archive: ZipFile, hints: Hints) -> list[str]:
    show = parsed(part(archive, _SHOW, hints))
    if show is None:
        raise Rejected(f"{hints.name} is damaged: its list of slides can't be parsed", "damaged")
    targets = _related(archive, _SHOW, hints)
    ids = [value for slide in show.iter("{*}sldId") for name, value in slide.attrib.items() if _ID.fullmatch(str(name))]
    return [targets[each][1] for each in ids if each in targets]


def _related(archive: ZipFile, path: str, hints: Hints) -> dict[str, tuple[str, str]]:
    """Return kind and path of the parts that a part refers to, by their ids; never what is outside."""
    folder, _, name = path.rpartition("/")
    listed = f"{folder}/_rels/{name}.rels"
    root = parsed(part(archive, listed, hints)) if listed in archive.namelist() else None
    found: dict[str, tuple[str, str]] = {}
    for relation in [] if root is None else root.iterfind(_RELATION):
        if relation.get("TargetMode") != "External":
            steps = [] if relation.get("Target", "").startswith("/") else folder.split("/")
            for step in relation.get("Target", "").strip("/").split("/"):
                if step == "..":
                    del steps[-1:]
                elif step != ".":
                    steps.append(step)
            kind = relation.get("Type", "").rpartition("/")[2]
            found[relation.get("Id", "")] = (kind, "/".join(steps))
    return found


def _slide(archive: ZipFile, path: str, hints: Hints) -> Iterator[str]:
    root = parsed(part(archive, path, hints))
    if root is None:
        raise Rejected(f"{path} can't be parsed", "damaged")
    yield from _shapes(root)
    for kind, target in _related(archive, path, hints).values():
        # SmartArt keeps its words in a part of its own.
        if kind in ("notesSlide", "diagramData") and target in archive.namelist():
            inner = parsed(part(archive, target, hints))
            words = list(_shapes(inner, titles=False)) if inner is not None else []
            if words:
                yield "\n\n".join(["Notes:", *words] if kind == "notesSlide" else words)


def _shapes(root: "_Element", *, titles: bool = True) -> Iterator[str]:
    """Yield the words of every shape; of alternatives for other versions of PowerPoint the first."""
    ahead = [root]
    while ahead:
        element = ahead.pop()
        name = tag(element)
        if name == "Fallback":
            continue
        if name == "tbl":
            yield table(
                [["\n".join(_paragraphs(cell)) for cell in row.iterfind("{*}tc")] for row in element.iter("{*}tr")]
            )
        elif name in ("txBody", "t") and (lines := list(_paragraphs(element))):
            holder = element.getparent()
            place = None if holder is None else holder.find(".//{*}nvPr/{*}ph")
            kind = "" if place is None else place.get("type", "body")
            if kind in _FRAME:
                continue
            yield "# " + " ".join(lines) if titles and kind in _TITLES else "\n".join(lines)
        else:
            ahead.extend(child for child in reversed(element) if tag(child))


def _paragraphs(body: "_Element") -> Iterator[str]:
    for paragraph in body.iter("{*}p"):
        words = "".join(
            " " if tag(piece) in ("br", "tab") else piece.text or ""
            for piece in paragraph.iter("{*}t", "{*}br", "{*}tab")
        )
        if line := " ".join(words.split()):
            level = next(iter(paragraph.iterfind("{*}pPr")), None)
            depth = 0 if level is None else int(level.get("lvl", "0")) if level.get("lvl", "0").isdigit() else 0
            yield f"{'  ' * min(depth, 8)}- {line}" if depth else line


FORMAT = Format(
    document_type="pptx",
    media_types=frozenset({_TYPE + "presentation", _TYPE + "slideshow"}),
    suffixes=frozenset({".pptx", ".pptm", ".ppsx", ".potx"}),
    sniff=lambda data: _SHOW in names(data),
    read=read,
    warm=imports("lxml.etree"),
    libraries=("lxml",),
)
