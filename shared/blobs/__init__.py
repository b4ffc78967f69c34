"""Port: the store for large bodies. A blob is named tenant/documentId/sha256; documents never share one."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from shared.contracts import BlobRef

CLAIM_CHECK_BYTES = 256 * 1024  # a larger body is stored as a blob; the log carries a reference


class StoredBlob(NamedTuple):
    """One put of a blob; putting the same blob again gives another `put`."""

    tenant: str
    document_id: str
    sha256: str
    size: int  # bytes
    put: str  # identifies this put among all puts of the same blob


class Blobs(Protocol):
    """The blob store."""

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        """Return the reference once `data` is stored durably; an existing blob's age starts again.

        Raises:
            Unavailable: the store can't accept it now (full disk, permission, network).
        """
        ...

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        """Return the bytes, verified against the hash in the name.

        Raises:
            Rejected: code `blob_missing` or `blob_altered`.
            Unavailable: the store can't be reached.
        """
        ...

    async def delete(self, tenant: str, document_id: str, sha256: str | None = None) -> int:
        """Delete one blob of the document, or all with `sha256` None; return how many were deleted."""
        ...

    async def collect(self, tenant: str, document_id: str, keep: frozenset[str], older_than_s: float) -> int:
        """Delete the document's blobs that are not in `keep` (sha256) and older than that; return how many."""
        ...

    def stored(self) -> AsyncIterator[Sequence[StoredBlob]]:
        """Yield all blobs in batches, in no particular order. Raises Unavailable."""
        ...

    async def remove(self, blob: StoredBlob) -> bool:
        """Delete the blob unless it was put again since `blob` was listed; return whether it was deleted.

        Raises:
            Unavailable: the store can't be reached.
        """
        ...
