"""EPUB: the chapters in the order of reading."""

from posixpath import dirname, join, normpath
from urllib.parse import unquote

from services.ingest_worker.extract.archive import named, names, opened, part
from services.ingest_worker.extract.clean import cleaned, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports
from services.ingest_worker.extract.markup import parsed
from services.ingest_worker.extract.page import page_text, tree_of
from services.ingest_worker.extract.parts import note
from shared.errors import Rejected

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
            raise Rejected(f"{hints.name} is damaged: the book's table of its parts can't be read", "damaged")
        files = {item.get("id"): item.get("href", "") for item in package.iterfind("{*}manifest/{*}item")}
        chapters, unread = [], []
        for item in package.iterfind("{*}spine/{*}itemref"):
            href = unquote(files.get(item.get("idref"), "").partition("#")[0])
            try:
                chapters.append(_chapter(part(archive, normpath(join(dirname(path), href)), hints)))
            except Rejected as error:
                unread.append(error.sentence)
    described = named(package.iterfind("{*}metadata/*"), ("title", "description", "language", "date"))
    return Extraction(
        text=cleaned("\n\n".join(filter(None, chapters))),
        document_type="epub",
        title=one_line(described.get("title")),
        description=one_line(described.get("description"), 2000),
        language=one_line(described.get("language"), 35),
        created=one_line(described.get("date"), 35),
        note=note(unread),
    )


def _chapter(source: bytes) -> str:
    tree, _ = tree_of(source)
    return page_text(tree).strip()


FORMAT = Format(
    document_type="epub",
    media_types=frozenset({"application/epub+zip"}),
    suffixes=frozenset({".epub"}),
    sniff=lambda data: _CONTAINER in names(data),
    read=read,
    warm=imports("lxml.html"),
    libraries=("lxml",),
)
