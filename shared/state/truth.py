"""What leaves documents.extracted, the truth. correctness.md, section 2."""

from shared.contracts import truth_key
from shared.log import Publish
from shared.topics import EXTRACTED


async def tombstone(publish: Publish, document_id: str, version: int) -> None:
    """Take a version out: once compacted, the truth doesn't hold it. Striking it again does no harm."""
    await publish(EXTRACTED, None, key=truth_key(document_id, version), route=document_id.encode())
