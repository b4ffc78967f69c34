"""Port: large bodies, by content. Named tenant/documentId/sha256, shared by no two documents."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from shared.contracts import BlobRef

CLAIM_CHECK_BYTES = 256 * 1024  # larger than this travels by reference


class StoredBlob(NamedTuple):
    """A blob as it was put at one time; putting it again makes another one of the same name."""

    tenant: str
    document_id: str
    sha256: str
    size: int  # bytes
    put: str  # tells this put from every other one of the same blob


class Blobs(Protocol):
    """What the doors and the workers need of a blob store."""

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        """Return the reference once `data` is on disk; an existing blob gets a new age.

        Raises:
            Unavailable: the store can't take it now (full disk, permission, network).
        """
        ...

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        """Return the bytes, checked against the name.

        Raises:
            Rejected: code `blob_missing` or `blob_altered`.
            Unavailable: the store is away.
        """
        ...

    async def delete(self, tenant: str, document_id: str, sha256: str | None = None) -> int:
        """Return how many blobs of the document went: one, or all of them with `sha256` None."""
        ...

    async def collect(self, tenant: str, document_id: str, keep: frozenset[str], older_than_s: float) -> int:
        """Return how many of the document's blobs went: those not in `keep` (sha256) and older than given."""
        ...


@runtime_checkable
class BlobInventory(Protocol):
    """What the collector needs of a blob store."""

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        """Return the bytes. See `Blobs`."""
        ...

    def stored(self) -> AsyncIterator[Sequence[StoredBlob]]:
        """Yield all blobs, some at a time, in no particular order. Raises Unavailable."""
        ...

    async def remove(self, blob: StoredBlob) -> bool:
        """Return whether the blob went: it stays where it was put again since `blob` was listed. Raises Unavailable."""
        ...
