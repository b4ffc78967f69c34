"""Finds the parts of Office containers by their relations, and gives a workbook's parts their usual names."""

import io
import re
import zipfile
from html import escape
from typing import Final

from services.ingest_worker.extract.archive import ERRORS, names, opened, packed, part, related, relations_of
from services.ingest_worker.extract.format_types import Hints

_TYPES: Final = "[Content_Types].xml"
_HEAD: Final = 256 * 1024  # bytes of the list of types that are looked at
_RELATIONS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_FIXED: Final = ("sharedStrings", "styles")
_BOOK: Final = "xl/workbook.xml"
_MACROS: Final = frozenset({"xlMacrosheet", "xlIntlMacrosheet"})  # kinds of sheets that the library refuses


def declares(data: bytes, program: re.Pattern[bytes]) -> bool:
    """Return whether it is an Office container whose main part has a type of that program."""
    if _TYPES not in names(data):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_TYPES) as types:
            return program.search(types.read(_HEAD)) is not None
    except ERRORS:
        return False


def main_part(archive: zipfile.ZipFile, usual: str, hints: Hints) -> str:
    """Return the path of the main part.

    Raises:
        Rejected: as `part`.
    """
    listed = archive.namelist()
    found = (path for kind, path in related(archive, "", hints).values() if kind == "officeDocument")
    return next((path for path in found if path in listed), usual)


def usually_named(data: bytes, hints: Hints) -> bytes:
    """Return the workbook with its parts where the library that reads its values looks for them.

    Raises:
        Rejected: as `opened` and `part`.
    """
    with opened(data, hints) as archive:
        listed = set(archive.namelist())
        book = main_part(archive, _BOOK, hints)
        if book.endswith(".bin"):
            return data
        new, macros = {book: _BOOK}, False
        for number, (kind, path) in enumerate(related(archive, book, hints).values(), 1):
            if kind in _FIXED:
                new[path] = f"xl/{kind}.xml"
            elif kind == "worksheet" and not path.startswith("xl/"):
                new[path] = f"xl/moved{number}.xml"
            macros |= kind in _MACROS
        new = {path: name for path, name in new.items() if path != name and path in listed}
        if not new and not macros:
            return data
        referring = {"": "", book: _BOOK, **new}
        kept = listed - {relations_of(path) for path in referring} - set(new.values())
        parts = [(new.get(name, name), part(archive, name, hints)) for name in kept]
        relations = (
            (relations_of(name), _relations(archive, path, new, hints))
            for path, name in referring.items()
            if relations_of(path) in listed
        )
        return packed([*parts, *relations])


def _relations(archive: zipfile.ZipFile, path: str, new: dict[str, str], hints: Hints) -> str:
    links = "".join(
        f'<Relationship Id="{escape(of)}" Type="{_RELATIONS}/{"dialogsheet" if kind in _MACROS else kind}" '
        f'Target="/{escape(new.get(to, to))}"/>'
        for of, (kind, to) in related(archive, path, hints).items()
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{links}</Relationships>'
    )
