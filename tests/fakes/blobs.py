"""The fake of `shared.blobs.Blobs`."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count
from typing import NamedTuple

from shared.blobs import Document, StoredBlob, blob_name, document_name
from shared.contracts import BlobRef
from shared.errors import Rejected, Unavailable

UNKEPT = "(no folder keeps this)"  # a blob that contains it can't be read until the store is `mended`

_Key = tuple[str, str, str]  # tenant, document id, sha256


class _Kept(NamedTuple):
    data: bytes
    size: int  # of what was put; `data` may be damaged
    at: float  # by the loop's clock, when it was put last
    number: int  # of the put


class MemoryBlobs:
    """Blobs by tenant, document and content."""

    def __init__(self) -> None:
        self.mended = False
        self.away = False  # nothing can be put
        self.reads = 0
        self.ever: dict[str, bytes] = {}  # all that was ever put, by its name
        self._blobs: dict[_Key, _Kept] = {}
        self._puts = count()

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        document_name(tenant, document_id)
        if self.away:
            raise Unavailable("no room for blobs")
        name = hashlib.sha256(data).hexdigest()
        self.ever[name] = data
        self._blobs[tenant, document_id, name] = _Kept(data, len(data), _now(), next(self._puts))
        return BlobRef(sha256=name, size=len(data))

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        shown = f"{document_name(tenant, document_id)}/{blob_name(ref.sha256)}"
        self.reads += 1
        kept = self._blobs.get((tenant, document_id, ref.sha256))
        if kept is None or (UNKEPT.encode() in kept.data and not self.mended):
            raise Rejected(f"blob {shown} is missing", "blob_missing")
        if hashlib.sha256(kept.data).hexdigest() != ref.sha256:
            raise Rejected(
                f"blob {shown} was altered: its {len(kept.data)} bytes aren't the {kept.size} stored", "blob_altered"
            )
        return kept.data

    async def stored(self, document: Document | None = None) -> AsyncIterator[Sequence[StoredBlob]]:
        if document is not None:
            document_name(*document)
        chosen = ((key, kept) for key, kept in self._blobs.items() if document in {None, key[:2]})
        yield [StoredBlob(*key, kept.size, str(kept.number), _now() - kept.at) for key, kept in chosen]

    async def remove(self, blob: StoredBlob) -> bool:
        return bool(self._remove(lambda key, kept: key == blob[:3] and str(kept.number) == blob.put))

    def _remove(self, fits: Callable[[_Key, _Kept], bool]) -> int:
        gone = [key for key, kept in self._blobs.items() if fits(key, kept)]
        for key in gone:
            del self._blobs[key]
        return len(gone)

    # From behind

    def text(self, tenant: str, document_id: str, sha256: str) -> str | None:
        """Return what is there, None where nothing is."""
        kept = self._blobs.get((tenant, document_id, sha256))
        return None if kept is None else kept.data.decode()

    def documents(self) -> set[str]:
        """Return the ids of the documents that have any."""
        return {key[1] for key in self._blobs}

    def age(self, seconds: float) -> None:
        """Let every blob be older by so much."""
        self._blobs = {key: kept._replace(at=kept.at - seconds) for key, kept in self._blobs.items()}

    def damage(self, data: bytes) -> None:
        """Let every blob contain this instead."""
        self._blobs = {key: kept._replace(data=data) for key, kept in self._blobs.items()}


def _now() -> float:
    return asyncio.get_running_loop().time()
