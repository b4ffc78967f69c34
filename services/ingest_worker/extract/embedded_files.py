"""Extracts the files within a file: attachments of mails, members of archives."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast, get_args
from zipfile import ZipFile

import msgspec

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.archive import part
from services.ingest_worker.extract.format_types import Hints, as_part
from shared.contracts import LeftOutCode, Note, NoteCode, UnreadCode
from shared.errors import Rejected

_CODES = frozenset((*get_args(UnreadCode), *get_args(LeftOutCode)))
_EMBEDDED = frozenset({"package", "oleObject", "image"})  # kinds of relations
_DEPTH = 3  # for example, a mail in a mail in an archive


def part_texts(parts: Iterable[tuple[str, Callable[[], bytes]]], hints: Hints) -> tuple[list[str], list[Note]]:
    """Return the text of each readable part, with its name as a heading, and notes about what was not read.

    A part is its name and a function that returns its bytes, or raises Rejected.

    Raises:
        Rejected: code `too_large`, when containers are nested too deeply.
    """
    from services.ingest_worker.extract import extract  # imported here, because it imports all formats

    if hints.depth >= _DEPTH:
        raise Rejected(f"{hints.name} is nested more than {_DEPTH} files deep", "too_large")
    texts: list[str] = []
    unread: list[Note] = []
    for number, (name, give) in enumerate(parts):
        if limits.spent():
            message = f"only the first {number} files in {hints.name} were read in {limits.seconds()}"
            unread.insert(0, Note(code="timeout", place="", message=message))
            break
        try:
            inner = extract(give(), Hints(filename=name, depth=hints.depth + 1))
        except Rejected as error:
            unread.append(refused(error, name))
            continue
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one part that a reader fails at must not cost the others
            message = f"{Hints(filename=name).name} could not be read: its reader failed"
            unread.append(Note(code="failed", place=name, message=message))
            continue
        texts.append(as_part(name, inner.text) if name else inner.text)
        unread += within(name, inner.notes)
    return texts, unread


def embedded(archive: ZipFile, targets: Iterable[tuple[str, str]], hints: Hints) -> tuple[list[str], list[Note]]:
    """Return the texts of the files that parts of an Office file embed, and notes about files and pictures not read.

    `targets` are kinds and paths of what the parts refer to.
    """
    listed = frozenset(archive.namelist())
    found = {path: kind for kind, path in targets if kind in _EMBEDDED and path in listed}
    files = [(path.rpartition("/")[2], partial(part, archive, path, hints)) for path in found if found[path] != "image"]
    try:
        texts, unread = part_texts(files, hints) if files else ([], [])
    except Rejected as error:  # nested too deeply
        texts, unread = [], [refused(error, "")]
    return texts, [*unread, *pictures(len(found) - len(files))]


def pictures(count: int) -> list[Note]:
    """Return the note about so many pictures, which no reader of the format looks at."""
    which = "1 picture was" if count == 1 else f"{count} pictures were"
    return [Note(code="picture", place="", message=f"{which} not read")] if count else []


def refused(error: Rejected, place: str) -> Note:
    """Return the note about a part that could not be read."""
    code = cast("NoteCode", error.code) if error.code in _CODES else "damaged"
    return Note(code=code, place=place, message=error.sentence)


def within(name: str, notes: Iterable[Note]) -> list[Note]:
    """Return the notes about a part as notes about the file that it is in."""
    return [msgspec.structs.replace(each, place=f"{name}, {each.place}" if each.place else name) for each in notes]


def sentence(notes: Sequence[Note]) -> str:
    """Return the first five notes as a sentence."""
    more = f"; and {len(notes) - 5} more" if len(notes) > 5 else ""
    return "; ".join(each.message for each in notes[:5]) + more
