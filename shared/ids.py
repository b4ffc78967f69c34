"""Ids and hashes derived from content, so that every step can be repeated.

Every id is a UUIDv5 (RFC 9562) of a length-prefixed tuple, so ("a", "b/c") and ("a/b", "c") differ.
Names are compared in NFC, because systems spell the same name differently: macOS writes é as two characters.
"""

import hashlib
import unicodedata
from functools import lru_cache
from pathlib import Path
from uuid import UUID

import xxhash

_LONGEST_NAME = 2000  # characters, of a path
_NAMESPACE = UUID("6f0d3c1e-8a57-5b1e-9a35-5d1d2c6b7f10")


def _name(kind: str, *parts: str) -> str:
    # surrogatepass: file names may contain lone surrogates.
    raws = [part.encode("utf-8", "surrogatepass") for part in (kind, *parts)]
    named = b"".join([b"%d:%b" % (len(raw), raw) for raw in raws]).hex()
    # As `uuid.uuid5`, whose objects cost more than the rest of it.
    digest = hashlib.sha1(_NAMESPACE.bytes + named.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


@lru_cache(4096)  # every stage computes it for every record
def document_id(tenant: str, source: str, path: str) -> str:
    """Return the document's UUID; it depends only on (tenant, source, path), in NFC, and never changes."""
    return _name("document", tenant, composed(source), composed(path))


def is_uuid(name: str) -> bool:
    """Return whether the name is a UUID in its usual spelling, as ids of documents are."""
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def composed(name: str) -> str:
    """Return the name in NFC; unchanged if it is longer than any that is kept, because NFC may take quadratic time."""
    return name if name.isascii() or len(name) > _LONGEST_NAME else unicodedata.normalize("NFC", name)


def point_id(document: str, version: int, order: int) -> str:
    """Return the UUID of the point that holds chunk `order` of one version of a document."""
    return _name("point", document, str(version), str(order))


def chunk_id(document: str, chunk_hash: str, occurrence: int) -> str:
    """Return a chunk's stable UUID, which doesn't change when other parts of the document are edited.

    `occurrence` counts equal chunks of one document from 0.
    """
    return _name("chunk", document, chunk_hash, str(occurrence))


def text_hash(text: str) -> str:
    """Return 32 hex digits, xxh3_128 of the NFC text. Use it to find equal texts, then compare the texts."""
    return xxhash.xxh3_128_hexdigest(unicodedata.normalize("NFC", text).encode("utf-8", "surrogatepass"))


def bytes_hash(*pieces: bytes) -> str:
    """Return 32 hex digits, xxh3_128 of the bytes, which may come in pieces."""
    hashing = xxhash.xxh3_128()
    for piece in pieces:
        hashing.update(piece)
    return hashing.hexdigest()


def file_hash(file: Path) -> str:
    """Return `bytes_hash` of a file's content, read in pieces of 1 MiB. Raises OSError."""
    hashing = xxhash.xxh3_128()
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            hashing.update(piece)
    return hashing.hexdigest()
