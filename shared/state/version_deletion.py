"""Deletes versions from documents.extracted, the truth. correctness.md, section 2."""

from collections.abc import Collection

from shared.contracts import truth_key
from shared.log import Publish
from shared.state.index import Index
from shared.state.ledger import Entry, Ledger, without, without_surplus
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


async def forget_surplus(index: Index, ledger: Ledger, publish: Publish, document_id: str) -> int:
    """Remove the document's surplus of failed versions from the truth; return how many. Idempotent.

    Each is withdrawn for good first: a redrive that is under way can't make a version answer that isn't in the truth.
    A version that answers after all stays.
    """
    entry = await ledger.get(document_id)
    if entry is None or not entry.surplus:
        return 0
    gone = [each for each in entry.surplus if await index.withdraw_for_good(document_id, each, entry.tenant)]
    if not gone:
        return 0
    await index.flush()  # the tombstones survive a loss of power, and so must the withdrawals
    for version in gone:
        await tombstone(publish, document_id, version)

    def forgotten(seen: Entry | None) -> Entry | None:
        return None if seen is None or not set(gone) & {*seen.published} else without_surplus(seen, gone)

    await ledger.update(document_id, forgotten)
    return len(gone)
