"""Loads many files, a few at a time. Files that the server already has are only compared."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from services.operator_cli.errors import Misuse, RequestRefused
from services.operator_cli.local_files import FoundFile
from shared.ids import file_hash

if TYPE_CHECKING:
    from services.operator_cli.client import Client

AT_ONCE: Final = 16  # enough to keep the server's stages busy, and few enough to have so many files in memory
COMPARED_AT_ONCE: Final = 500
NOT_KEPT: Final = "NOT_KEPT"  # code of a document whose original is gone
MOST_PERCENT: Final = 20  # share of a source's documents that may be removed without confirming their number
RENAMES_LOOKED_FOR: Final = 1000  # missing documents that are looked up one by one

T = TypeVar("T")


class LoadOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one document ended: created, updated, unchanged, deleted, accepted (in progress), skipped, or failed."""

    path: str
    status: str
    document_id: str | None = None
    chunk_count: int | None = None
    error: str | None = None
    code: str | None = None
    renamed_to: str | None = None  # for a deleted document: the path of the created one with the same content
    dropped: tuple[str, ...] = ()  # fields that the previous version had and this one lacks
    notes: tuple[dict[str, str], ...] = ()  # the first of what could not be read: code, place, message
    note_count: int = 0


Done = Callable[[LoadOutcome], None]


def to_send(files: Sequence[FoundFile], server: "Client", about: Mapping[str, Any], done: Done) -> list[FoundFile]:
    """Return the files that the server lacks or has otherwise; `done` is called for the others.

    All files are compared before any is sent, because the server can't be sure about documents beside unread ones.

    Raises:
        ServerAway: the server went away.
    """
    changed: list[FoundFile] = []
    with ThreadPool(AT_ONCE) as pool:
        for start in range(0, len(files), COMPARED_AT_ONCE):
            some = files[start : start + COMPARED_AT_ONCE]
            hashes = pool.map(_hash, some)
            held = [(found, hash_) for found, hash_ in zip(some, hashes, strict=True) if hash_ is not None]
            same = _unchanged(server, held, about)
            for found in some:
                if found.name in same:
                    done(LoadOutcome(path=found.name, status="unchanged"))
                else:
                    changed.append(found)
    return changed


def load(files: Iterable[FoundFile], server: "Client", about: Mapping[str, Any], done: Done) -> None:
    """Send every file with these fields; `done` is called for each when it ends, on the caller's thread.

    Raises:
        ServerAway: the server went away; the remaining files were not sent.
    """
    _each(files, lambda found: _loaded(found, server, about), done)


def missing(
    names: Iterable[str], server: "Client", *, source: str, chosen: Callable[[str], bool]
) -> tuple[dict[str, str], int]:
    """Return the source's documents without a file among these, path and id, and how many were compared.

    `chosen` says which documents are compared.
    """
    there = set(names)
    listed = server.listed("/rag/documents", source=source)["items"]
    compared = {each["path"]: each["documentId"] for each in listed if chosen(each["path"])}
    return {path: id_ for path, id_ in compared.items() if path not in there}, len(compared)


def check_share(count: int, total: int, confirmed: int | None) -> None:
    """Raise Misuse if the removal is so large that the number of documents must be confirmed, and isn't."""
    if confirmed is not None and confirmed != count:
        raise Misuse(f"--confirm {confirmed} is not the number of documents that are gone: {count} of {total}")
    if confirmed is None and count * 100 > total * MOST_PERCENT:
        raise Misuse(
            f"{count} of the source's {total} documents are gone, more than {MOST_PERCENT} %, so none was removed; "
            f"if that is right, add --confirm {count}"
        )


def renames(gone: Mapping[str, str], created: Mapping[str, Path], server: "Client") -> dict[str, str]:
    """Return the new path of each missing document, given as path and id, whose content was created elsewhere."""
    if not created or len(gone) > RENAMES_LOOKED_FOR:
        return {}
    hashes = {hashlib.sha256(file.read_bytes()).hexdigest(): path for path, file in created.items()}
    found: dict[str, str] = {}
    for path, id_ in gone.items():
        new = hashes.pop(str(server.get("rag", "documents", id_).get("sha256")), None)
        if new is not None:
            found[path] = new
    return found


def change_each(documents: Iterable[tuple[str, str]], ask: Callable[[str], dict[str, Any]], done: Done) -> None:
    """Call `ask` with each document's id, and `done` with its end; they are path and id. Raises ServerAway."""
    _each(documents, lambda item: outcome(item[0], lambda: ask(item[1])), done)


def _each(items: Iterable[T], act: Callable[[T], LoadOutcome], done: Done) -> None:
    """Call `done` with the result of `act` for each item, `AT_ONCE` of them at a time."""
    with ThreadPool(AT_ONCE) as pool:
        for ended in pool.imap_unordered(act, items):
            done(ended)


def _unchanged(server: "Client", held: Sequence[tuple[FoundFile, str]], about: Mapping[str, Any]) -> frozenset[str]:
    if not held:
        return frozenset()
    asked = [(found.file, found.name, hash_) for found, hash_ in held]
    try:
        same = server.unchanged(asked, about)
    except RequestRefused:
        return frozenset()  # every file is sent, and an invalid one is refused individually
    return frozenset(found.name for (found, _), is_same in zip(held, same, strict=True) if is_same)


def _hash(found: FoundFile) -> str | None:
    """Return the file's hash; None if the file can't be read, which is reported when it is sent."""
    try:
        found.name.encode()
        return file_hash(found.file)
    except (OSError, UnicodeEncodeError):
        return None


def _loaded(found: FoundFile, server: "Client", about: Mapping[str, Any]) -> LoadOutcome:
    try:
        return outcome(found.name, lambda: server.upload(found.file, found.name, about))
    except UnicodeEncodeError:
        # a printable form, because the name itself can't be encoded in UTF-8
        shown = found.name.encode(errors="replace").decode()
        return LoadOutcome(path=shown, status="failed", error="its name is not UTF-8")


def outcome(path: str, ask: Callable[[], dict[str, Any]]) -> LoadOutcome:
    """Return how one document ended, by the server's reply or refusal. Raises ServerAway."""
    try:
        reply = ask()
    except RequestRefused as error:
        status, code = "not kept" if error.code == NOT_KEPT else "failed", error.code or None
        return LoadOutcome(path=path, status=status, document_id=error.document_id, error=str(error), code=code)
    except OSError as error:
        return LoadOutcome(path=path, status="failed", error=str(error))
    return msgspec.convert({**reply, "path": path, "code": None}, LoadOutcome)
