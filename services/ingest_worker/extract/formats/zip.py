"""Reads ZIP archives: the text of every readable file, under its name."""

from collections.abc import Iterator
from zipfile import ZipFile

from services.ingest_worker.extract.archive import opened, part
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.format import Extraction, Format, Hints
from services.ingest_worker.extract.parts import note, part_texts
from shared.errors import Rejected


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the files' texts, each under its name as a heading; the note lists files that can't be read.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`; `empty`: no file in it can be read.
    """
    with opened(data, hints) as archive:
        texts, unread = part_texts(_members(archive, hints), hints)
    if not texts and unread:
        raise Rejected(f"{hints.name} holds no readable text: {note(unread)}", "empty")
    return Extraction(text=cleaned("\n\n".join(texts)), document_type="zip", note=note(unread))


def _members(archive: ZipFile, hints: Hints) -> Iterator[tuple[str, bytes]]:
    for entry in archive.infolist():
        steps = [step for step in entry.filename.split("/") if step.strip(".")]
        hidden = any(step.startswith((".", "__MACOSX")) for step in steps)
        if not entry.is_dir() and not hidden:
            yield entry.filename, part(archive, entry.filename, hints)


FORMAT = Format(
    document_type="zip",
    nests=True,
    text_format="markdown",
    media_types=frozenset({"application/zip", "application/x-zip-compressed"}),
    suffixes=frozenset({".zip"}),
    sniff=lambda _: False,  # a ZIP container is most likely an Office document, even a damaged one
    read=read,
)
