"""Reads Excel files since version 2007."""

import re
from collections.abc import Mapping
from zipfile import ZipFile

import msgspec

from services.ingest_worker.extract import sheets
from services.ingest_worker.extract.archive import drawn, names, opened, packed, part, properties, related, root_of
from services.ingest_worker.extract.drawings import shapes
from services.ingest_worker.extract.embedded_files import embedded, within
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.part_names import declares, usually_named
from services.ingest_worker.extract.safe_xml import parsed, reference, whole, words
from services.ingest_worker.extract.sheet_views import SheetView, binary_view, moved, number_formats, sheet_view
from services.ingest_worker.extract.sparse_sheets import FAR, Ranks, moved_together, records
from shared.contracts import Note

_BOOKS = ("xl/workbook.xml", "xl/workbook.bin")
_Listed = list[tuple[str, str]]  # name and path of each sheet
_ROWS = re.compile(r"!\$\d{1,7}:\$(\d{1,7})$")
_SHEET = 156  # kind of the records that name the sheets of a binary workbook
_MAIN = re.compile(rb"(?:spreadsheetml|ms-excel)\.[\w.]{1,60}\.main\+xml")
# The library leaves out cells with usual errors, and for others refuses the whole sheet.
_ERROR = re.compile(rb'(<(?:\w+:)?c\b[^<>]*?\bt=")e"')
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_WITH_MACROS = "application/vnd.ms-excel.sheet.macroenabled.12"
_BINARY = "application/vnd.ms-excel.sheet.binary.macroenabled.12"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a heading per sheet, a paragraph per row, text boxes and charts, with the file's properties.

    Raises:
        Rejected: code `password`, `damaged` or `too_large`.
    """
    data = usually_named(data, hints)
    with opened(data, hints) as archive:
        says = properties(archive, hints)
        # Each part is read here, within limits, before the library unpacks it itself.
        texts = [name for name in archive.namelist() if name.endswith(".xml")]
        far, changed = list[str](), dict[str, bytes]()
        for name in texts:
            content = part(archive, name, hints)
            far += [name] if FAR.search(content) else []
            if b't="e"' in content:
                changed[name] = _ERROR.sub(rb'\1str"', content)
        listed = _sheets(archive, hints)
        far += [path for _, path in listed if path.endswith(".bin")]
        near = moved_together(((name, changed.get(name) or part(archive, name, hints)) for name in far), hints)
        changed |= {name: sheet for name, (sheet, _) in near.items()}
        if changed:
            data = packed((name, changed.get(name) or part(archive, name, hints)) for name in archive.namelist())
        drawn, notes = _drawn(archive, listed, hints)
        views = _views(archive, listed, {name: ranks for name, (_, ranks) in near.items()}, hints)
        found = sheets.read_as("xlsx", data, hints, says, drawn=drawn, views=views)
    return msgspec.structs.replace(found, notes=(*found.notes, *notes))


def _views(archive: ZipFile, listed: _Listed, ranks: Mapping[str, Ranks], hints: Hints) -> dict[str, SheetView]:
    """Return the views of the sheets by name, at the places that their cells have now."""
    styles = number_formats(archive, _BOOKS[0], hints)
    repeated = _repeated(archive, hints)
    views: dict[str, SheetView] = {}
    for name, path in listed:
        binary = path.endswith(".bin")
        view = binary_view(part(archive, path, hints)) if binary else sheet_view(archive, path, styles, hints)
        view = view._replace(heads=view.heads | repeated.get(name, frozenset()))
        views[name] = moved(view, ranks[path]) if path in ranks else view
    return views


def _repeated(archive: ZipFile, hints: Hints) -> dict[str, frozenset[int]]:
    """Return the last of the rows that are printed on each page, by the name of their sheet."""
    book = root_of(archive, _BOOKS[0], hints)
    names = [] if book is None else [each.get("name", "") for each in book.iterfind("{*}sheets/{*}sheet")]
    defined = () if book is None else book.iterfind("{*}definedNames/{*}definedName")
    return {
        names[at]: frozenset({int(rows[1]) - 1})
        for each in defined
        if each.get("name") == "_xlnm.Print_Titles" and (rows := _ROWS.search(words(each)))
        if (at := whole(each.get("localSheetId"), -1)) in range(len(names))
    }


def _sheets(archive: ZipFile, hints: Hints) -> _Listed:
    """Return name and path of each sheet whose part is there."""
    listed = archive.namelist()
    name = _BOOKS[_BOOKS[1] in listed]
    source, paths = part(archive, name, hints), related(archive, name, hints)
    book = parsed(source) if name == _BOOKS[0] else None
    sheets = () if book is None else book.iterfind("{*}sheets/{*}sheet")
    named = [(each.get("name", ""), reference(each)) for each in sheets]
    for kind, at in records(source) if name == _BOOKS[1] else ():
        if kind == _SHEET:
            of, behind = _string(source, at + 8)
            named.append((_string(source, behind)[0], of))
    return [(name, path) for name, of in named if (path := paths.get(of, ("", ""))[1]) in listed]


def _string(source: bytes, at: int) -> tuple[str, int]:
    """Return a string of a binary part, and where it ends."""
    end = at + 4 + 2 * int.from_bytes(source[at : at + 4], "little")
    return source[at + 4 : end].decode("utf-16-le", "replace"), end


def _drawn(archive: ZipFile, listed: _Listed, hints: Hints) -> tuple[dict[str, str], list[Note]]:
    """Return the text of text boxes, charts and embedded files by their sheet's name; notes about what isn't read."""
    found: dict[str, str] = {}
    notes: list[Note] = []
    seen: set[tuple[str, str]] = set()
    for name, path in listed:
        blocks: list[str] = []
        beside = list(related(archive, path, hints).values())
        for kind, drawing in list(beside):
            if kind == "drawing" and drawing in archive.namelist():
                root = parsed(part(archive, drawing, hints))
                targets = related(archive, drawing, hints)
                blocks += [] if root is None else shapes(root, drawn(archive, targets, hints))
                beside += targets.values()
        texts, unread = embedded(archive, [each for each in beside if each not in seen], hints)
        seen.update(beside)
        found[name] = "\n\n".join([*blocks, *texts])
        notes += within(name, unread)
    return found, notes


FORMAT = Format(
    document_type="xlsx",
    nests=True,
    text_format="sections",
    media_types=frozenset({_TYPE, _WITH_MACROS, _BINARY}),
    suffixes=frozenset({".xlsx", ".xlsm", ".xltx", ".xlsb"}),
    sniff=lambda data: not names(data).isdisjoint(_BOOKS) or declares(data, _MAIN),
    read=read,
    begins=b"PK",
    libraries=("lxml", "python-calamine"),
    revision=14,
)
