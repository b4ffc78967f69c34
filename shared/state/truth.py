"""Deletes versions from documents.extracted, the truth. correctness.md, section 2."""

from shared.contracts import truth_key
from shared.log import Publish
from shared.topics import EXTRACTED


async def tombstone(publish: Publish, document_id: str, version: int) -> None:
    """Publish the tombstone of a version, so that compaction removes it. Idempotent."""
    await publish(EXTRACTED, None, key=truth_key(document_id, version), route=document_id.encode())
