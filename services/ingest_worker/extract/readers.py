"""Fingerprints of the readers of formats: whether a file would be read today as it was read before. ADR 0017."""

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePosixPath
from typing import Final

from services.ingest_worker.extract.format import Format
from shared.ids import bytes_hash

COMMON: Final = "4"  # raise it when files of every format give a different text
_UNICODE: Final = f"unicode={unicodedata.unidata_version}"


class Readers:
    """The readers of all formats, each named by a fingerprint of its code and libraries."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self._formats: Mapping[str, Format] = {form.document_type: form for form in formats}
        self._types = {suffix: form.document_type for form in self._formats.values() for suffix in form.suffixes}
        self._names = {kind: self._name(form) for kind, form in self._formats.items()}

    @property
    def fingerprint(self) -> str:
        """Return the fingerprints of all readers, separated by blanks."""
        return " ".join(sorted(self._names.values()))

    def name(self, document_type: str) -> str:
        """Return the reader's fingerprint: the document type, a colon and 16 hex digits."""
        known = self._names.get(document_type)
        return known or f"{document_type}:{_digest(sorted(self._names.values()))}"

    def today(self, name: str, document_type: str | None, path: str) -> str | None:
        """Return today's fingerprint of the reader that `name` names; None if it may give another text by now.

        Earlier releases named the libraries of all formats at once; then the document's type decides which of them
        count, or the path's suffix if the type isn't known.
        """
        if not name:
            return None
        kind, colon, _ = name.partition(":")
        if colon:
            return name if self.name(kind) == name else None
        form = self._formats.get(document_type or self._types.get(PurePosixPath(path).suffix.lower(), ""))
        if form is None or form.nests or form.revision > 1:
            return None
        alike = set(name.split(";")) >= {COMMON, _UNICODE, *_versions(form)}
        return self.name(form.document_type) if alike else None

    def _name(self, form: Format) -> str:
        readers = sorted(self._formats.values(), key=lambda each: each.document_type) if form.nests else [form]
        parts = [part for each in readers for part in (each.document_type, str(each.revision), *_versions(each))]
        return f"{form.document_type}:{_digest([COMMON, _UNICODE, *parts])}"


def _versions(form: Format) -> list[str]:
    return [f"{library}={_version(library)}" for library in sorted(form.libraries)]


# Several formats share a library, and importlib.metadata parses a file at each call. An installation stays the same
# while it is running.
@cache
def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "absent"  # of an extra; after its installation documents are extracted again


def _digest(parts: Iterable[str]) -> str:
    return bytes_hash(";".join(parts).encode())[:16]
