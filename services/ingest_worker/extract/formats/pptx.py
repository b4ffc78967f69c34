"""Reads PowerPoint files since version 2007: a page per slide, with its tables, charts and notes."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from zipfile import ZipFile

from services.ingest_worker.extract.archive import addresses, drawn, names, opened, part, properties, related, root_of
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.document_properties import declared
from services.ingest_worker.extract.drawings import feet, shapes
from services.ingest_worker.extract.embedded_files import embedded, refused
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, laid_out
from services.ingest_worker.extract.markdown_writer import framed
from services.ingest_worker.extract.part_names import declares, main_part
from services.ingest_worker.extract.safe_xml import parsed, reference
from shared.errors import Rejected

if TYPE_CHECKING:
    from lxml.etree import _Element

_SHOW = "ppt/presentation.xml"
_MAIN = re.compile(rb"(?:presentationml|ms-powerpoint)\.[\w.]{1,60}\.main\+xml")
_TYPE = "application/vnd.openxmlformats-officedocument.presentationml."


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the slides in order: titles as headings, text, tables, charts, notes.

    Each footer comes once, after the last slide.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    with opened(data, hints) as archive:
        says = properties(archive, hints)
        slides: list[str] = []
        footers: list[str] = []
        notes, targets = [], list[tuple[str, str]]()
        for number, path in enumerate(_slides(archive, hints), 1):
            try:
                slide, below, parts = _slide(archive, path, hints)
                slides.append(slide)
                footers += below
                targets += parts
            except Rejected as error:
                slides.append("")
                notes.append(refused(error, f"slide {number}"))
        texts, unread = embedded(archive, targets, hints)
    text, starts = laid_out(slides)
    return Extraction(
        text="\n\n".join([framed([], text, footers), *texts]),
        pages=starts,
        **declared(says, text),
        notes=(*notes, *unread),
    )


def _slides(archive: ZipFile, hints: Hints) -> list[str]:
    path = main_part(archive, _SHOW, hints)
    show = parsed(part(archive, path, hints))
    if show is None:
        raise Rejected(f"{hints.name} is damaged: its list of slides can't be parsed", "damaged")
    targets = related(archive, path, hints)
    listed = (targets[of][1] for slide in show.iter("{*}sldId") if (of := reference(slide)) in targets)
    return list(dict.fromkeys(listed))  # each once, however often a hostile file names it


def _slide(archive: ZipFile, path: str, hints: Hints) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Return the slide's text, its footers, and kind and path of each part that belongs to it."""
    root = parsed(part(archive, path, hints))
    if root is None:
        raise Rejected(f"{path} can't be parsed", "damaged")
    if root.get("show") in ("0", "false"):
        raise Rejected(f"the hidden slide {path.rpartition('/')[2].removesuffix('.xml')} was left out", "hidden")
    targets = related(archive, path, hints)
    _show_addresses(root, addresses(archive, path, hints))
    blocks = list(shapes(root, drawn(archive, targets, hints), titles=True))
    for kind, target in targets.values():
        inner = root_of(archive, target, hints) if kind == "notesSlide" else None
        notes = [] if inner is None else list(shapes(inner, lambda _: None))
        blocks += ["Notes:", *notes] if notes else []
    return cleaned("\n\n".join(blocks)), list(feet(root)), list(targets.values())


def _show_addresses(root: "_Element", addresses: Mapping[str, str]) -> None:
    """Make the runs that are links, and the last words of shapes that are, Markdown links."""
    for click in root.iter("{*}hlinkClick") if addresses else ():
        address, says = addresses.get(reference(click)), click.getparent()
        owner = None if says is None else next(says.iterancestors("{*}r", "{*}sp"), None)
        shown = [] if owner is None else [each for each in owner.iter("{*}t") if (each.text or "").strip()]
        if address and shown and not (shown[-1].text or "").startswith("["):
            shown[-1].text = f"[{shown[-1].text}]({address})"


FORMAT = Format(
    document_type="pptx",
    nests=True,
    media_types=frozenset({_TYPE + "presentation", _TYPE + "slideshow"}),
    suffixes=frozenset({".pptx", ".pptm", ".ppsx", ".potx"}),
    sniff=lambda data: _SHOW in names(data) or declares(data, _MAIN),
    read=read,
    begins=b"PK",
    libraries=("lxml",),
    revision=11,
)
