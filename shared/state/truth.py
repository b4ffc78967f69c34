"""Deletes versions from documents.extracted, the truth. correctness.md, section 2."""

from collections.abc import Collection

from shared.contracts import truth_key
from shared.log import Publish
from shared.state.ledger import Entry, Ledger, without
from shared.topics import EXTRACTED


async def tombstone(publish: Publish, document_id: str, version: int) -> None:
    """Publish the tombstone of a version, so that compaction removes it. Idempotent."""
    await publish(EXTRACTED, None, key=truth_key(document_id, version), route=document_id.encode())


async def forget(ledger: Ledger, publish: Publish, document_id: str, versions: Collection[int]) -> None:
    """Publish the tombstones of versions, then take them off the ledger's list. Idempotent."""
    for version in sorted(versions):
        await tombstone(publish, document_id, version)

    def forgotten(seen: Entry | None) -> Entry | None:
        after = None if seen is None else without(seen, versions)
        return None if after == seen else after

    await ledger.update(document_id, forgotten)
