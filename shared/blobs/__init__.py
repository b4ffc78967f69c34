"""Port: the store for large bodies. A blob is named tenant/documentId/sha256; documents never share one."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final, NamedTuple, Protocol

from shared.contracts import BlobRef
from shared.errors import Rejected

CLAIM_CHECK_BYTES = 256 * 1024  # a larger body is stored as a blob; the log carries a reference


class StoredBlob(NamedTuple):
    """One put of a blob; putting the same blob again gives another `put`."""

    tenant: str
    document_id: str
    sha256: str
    size: int  # bytes
    put: str  # identifies this put among all puts of the same blob
    age_s: float  # when it began to be listed; the difference of the store's clock from ours adds to it


Document = tuple[str, str]  # tenant and id


class Blobs(Protocol):
    """The blob store."""

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        """Return the reference once `data` is stored durably. An existing blob is young again, a damaged one repaired.

        Raises:
            Unavailable: the store can't accept it now (full disk, permission, network).
        """

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        """Return the bytes, verified against the hash in the name.

        Raises:
            Rejected: code `blob_missing` or `blob_altered`.
            Unavailable: the store can't be reached.
        """

    def stored(self, document: Document | None = None) -> AsyncIterator[Sequence[StoredBlob]]:
        """Yield all blobs, or those of one document, in batches, in no particular order. Raises Unavailable."""

    async def remove(self, blob: StoredBlob) -> bool:
        """Delete the blob unless it was put again since `blob` was listed; return whether it was deleted.

        Raises:
            Unavailable: the store can't be reached.
        """


async def collect(blobs: Blobs, document: Document, keep: Collection[str], older_than_s: float) -> int:
    """Delete the document's blobs that are not in `keep` (sha256) and older than that; return how many."""
    found = [blob async for some in blobs.stored(document) for blob in some]
    gone = [blob for blob in found if blob.sha256 not in keep and blob.age_s > older_than_s]
    return len({blob.sha256 for blob in gone if await blobs.remove(blob)})


_TENANT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")
_DOCUMENT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def document_name(tenant: str, document_id: str) -> str:
    """Return `tenant/documentId`.

    Raises:
        Rejected: a part is not valid.
    """
    if not _TENANT.fullmatch(tenant):
        raise Rejected(f"the tenant {tenant!r} must be 1 to 64 letters, digits, '.', '_' or '-', and not just dots")
    if not _DOCUMENT.fullmatch(document_id):
        raise Rejected(f"the document id {document_id!r} must be a UUID in lower case")
    return f"{tenant}/{document_id}"


def blob_name(sha256: str) -> str:
    """Return `sha256`, the blob's name within its document.

    Raises:
        Rejected: it is not a SHA-256 in lower-case hex.
    """
    if not _SHA256.fullmatch(sha256):
        raise Rejected(f"the blob's name {sha256!r} must be 64 hex digits in lower case")
    return sha256
