"""Opens ZIP containers within size limits. Office, OpenDocument and EPUB files are ZIP containers."""

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from posixpath import join, normpath
from typing import TYPE_CHECKING

from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.extract.safe_xml import parsed, tag
from shared.errors import Rejected
from shared.text.links import REST

if TYPE_CHECKING:
    from lxml.etree import _Element

_ENTRIES = 5_000
_TOTAL = 256 << 20  # bytes unpacked
_UNSUSPECTED = 64 << 20  # bytes unpacked, up to which the ratio isn't checked
_RATIO = 100  # XML compresses 5 to 30 times; deflate reaches 1,032 at most
_PROPERTIES = {  # parts, and their elements by the names that they get
    "docProps/core.xml": {
        **{name: name for name in ("title", "description", "created", "modified", "language")},
        **{name: name for name in ("subject", "keywords", "category")},
        "creator": "author",
        "lastModifiedBy": "modifiedBy",
    },
    "docProps/app.xml": {"Company": "company", "Manager": "manager"},
}
ADDRESS = re.compile(rf"(?:https?|mailto):(?=\S){REST}", re.IGNORECASE)

Properties = dict[str, str]
# What zipfile raises at bytes of a stranger's choice
ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RuntimeError,
    OSError,
    ValueError,
    LookupError,
)


@lru_cache(maxsize=1)  # every format that is a container asks; `detect` clears it
def names(data: bytes) -> frozenset[str]:
    """Return the names of a ZIP container's entries; empty if it isn't one."""
    if not data.startswith(b"PK\x03\x04"):
        return frozenset()
    try:
        with _listed(data) as archive:
            return frozenset(archive.namelist())
    except ERRORS:
        return frozenset()


def _listed(data: bytes) -> zipfile.ZipFile:
    """Return the container. Some programs of Windows write backslashes between folders, against the format."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    for entry in archive.filelist:
        if entry.filename.isascii():  # in a name of another encoding they are halves of signs
            entry.filename = entry.filename.replace("\\", "/")
            archive.NameToInfo[entry.filename] = entry
    return archive


def packed(parts: Iterable[tuple[str, bytes | str]]) -> bytes:
    """Return a ZIP container with the parts, uncompressed, by their paths."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, content in parts:
            archive.writestr(path, content)
    return out.getvalue()


def is_folder(entry: zipfile.ZipInfo) -> bool:
    """Return whether the entry is a folder. `ZipInfo.is_dir` fails at an entry without a name."""
    return entry.filename.endswith("/")


def opened(data: bytes, hints: Hints) -> zipfile.ZipFile:
    """Return the opened container after checking its declared sizes; `part` reads no more than was declared.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`.
    """
    try:
        archive = _listed(data)
    except ERRORS:
        raise Rejected(f"{hints.name} is damaged: not a readable ZIP container", "damaged") from None
    entries = archive.infolist()
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _ENTRIES:
        raise Rejected(f"{hints.name} holds {len(entries)} files; at most {_ENTRIES} are allowed", "too_large")
    # Overlapping entries share their bytes, so the ratio is taken over the whole file.
    if total > _TOTAL or total > max(_UNSUSPECTED, _RATIO * len(data)):
        raise Rejected(
            f"{hints.name} would unpack from {len(data)} to {total} bytes, more than is allowed", "too_large"
        )
    locked = [entry.flag_bits & 1 for entry in entries if not is_folder(entry)]
    if locked and all(locked):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    return archive


def part(archive: zipfile.ZipFile, name: str | zipfile.ZipInfo, hints: Hints) -> bytes:
    """Return one entry.

    Raises:
        Rejected: code `damaged`, when it is missing, broken, locked, or larger than declared.
    """
    try:
        return archive.read(name)
    except ERRORS:
        named = name if isinstance(name, str) else name.filename
        raise Rejected(f"{hints.name} is damaged: its part {named} is missing or broken", "damaged") from None


def root_of(archive: zipfile.ZipFile, path: str, hints: Hints) -> "_Element | None":
    """Return the root element of an entry; None if it is missing or can't be parsed. Raises as `part`."""
    return parsed(part(archive, path, hints)) if path in archive.namelist() else None


def related(archive: zipfile.ZipFile, path: str, hints: Hints) -> dict[str, tuple[str, str]]:
    """Return the parts that a part of an Office container refers to: kind and path by id; external ones left out.

    The path '' stands for the container itself.

    Raises:
        Rejected: as `part`.
    """
    folder = path.rpartition("/")[0]
    return {
        relation.get("Id", ""): (
            relation.get("Type", "").rpartition("/")[2],
            normpath(join("/", folder, relation.get("Target", ""))).lstrip("/"),
        )
        for relation in _relations(archive, path, hints)
        if relation.get("TargetMode") != "External"
    }


def addresses(archive: zipfile.ZipFile, path: str, hints: Hints) -> dict[str, str]:
    """Return the addresses that a part's links lead to, by the link's id.

    Raises:
        Rejected: as `part`.
    """
    found = {each.get("Id", ""): each.get("Target", "").strip() for each in _relations(archive, path, hints)}
    return {of: address for of, address in found.items() if ADDRESS.fullmatch(address)}


def relations_of(path: str) -> str:
    """Return the path of the part that lists what a part refers to."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/_rels/{name}.rels".lstrip("/")


def _relations(archive: zipfile.ZipFile, path: str, hints: Hints) -> "list[_Element]":
    root = root_of(archive, relations_of(path), hints)
    return [] if root is None else list(root.iterfind("{*}Relationship"))


def drawn(
    archive: zipfile.ZipFile, targets: Mapping[str, tuple[str, str]], hints: Hints
) -> Callable[[str], bytes | None]:
    """Return a function that reads a part by its id in `targets`, once, whatever else refers to it.

    It returns None for a part that was read before or can't be read.
    """
    read: set[str] = set()

    def give(of: str) -> bytes | None:
        _, path = targets.get(of, ("", ""))
        if not path or path in read:
            return None
        read.add(path)
        try:
            return part(archive, path, hints)
        except Rejected:
            return None

    return give


def properties(archive: zipfile.ZipFile, hints: Hints) -> Properties:
    """Return an Office container's title, description, created, modified, language, author and others that it has."""
    found: Properties = {}
    for name, wanted in _PROPERTIES.items():
        root = root_of(archive, name, hints)
        found |= {} if root is None else named(root, wanted)
    return found


def named(root: "Iterable[_Element]", wanted: Mapping[str, str]) -> Properties:
    """Return the first non-blank text of the children with each of the wanted local names, by the name it gets."""
    found: Properties = {}
    for child in root:
        name, text = wanted.get(tag(child)), child.text
        if name and text and text.strip():
            found.setdefault(name, text.strip())
    return found
