"""Fingerprints of the readers of formats: whether a file would be read today as it was read before. ADR 0017."""

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from services.ingest_worker.extract.format_types import Format
from shared.ids import bytes_hash

COMMON: Final = "14"  # raise it when files of every format give a different text
_UNICODE: Final = f"unicode={unicodedata.unidata_version}"


class Readers:
    """The readers of all formats, each named by a fingerprint of its code and libraries."""

    def __init__(self, formats: Iterable[Format]) -> None:
        self._formats: Mapping[str, Format] = {form.document_type: form for form in formats}
        self._names = {kind: self._name(form) for kind, form in self._formats.items()}

    @property
    def fingerprint(self) -> str:
        """Return the fingerprints of all readers, separated by blanks."""
        return " ".join(sorted(self._names.values()))

    def name(self, document_type: str) -> str:
        """Return the reader's fingerprint: the document type, a colon and 16 hex digits."""
        known = self._names.get(document_type)
        return known or f"{document_type}:{_digest(sorted(self._names.values()))}"

    def has(self, fingerprint: str) -> bool:
        """Return whether there is the reader with this fingerprint; else it may give another text by now."""
        return self.name(fingerprint.partition(":")[0]) == fingerprint

    def _name(self, form: Format) -> str:
        readers = sorted(self._formats.values(), key=lambda each: each.document_type) if form.nests else [form]
        parts = [COMMON, _UNICODE]
        for each in readers:
            parts += [each.document_type, str(each.revision)]
            parts += [f"{library}={_version(library)}" for library in sorted(each.libraries)]
        return f"{form.document_type}:{_digest(parts)}"


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
