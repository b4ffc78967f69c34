"""Deletes points below their head and their versions in the truth, which a crash after the switch left behind."""

from collections import defaultdict

import structlog

from shared.log import Publish
from shared.state.index import Index
from shared.state.truth import tombstone

log = structlog.get_logger(__name__)


async def sweep(index: Index, publish: Publish) -> int:
    """Return how many stale points were deleted. Idempotent, and safe while others write.

    A point above its head, or without a head, belongs to a version that is being applied, and stays. A stale version
    gets its tombstone before its points are deleted, because only the points show that it existed.

    Raises:
        Unavailable: the log or the store is away; sweep again.
    """
    deleted = 0
    after: str | None = None
    while True:
        page = await index.versions_page(after=after)
        versions: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for point in page.points:
            metadata = point.payload["metadata"]
            versions[metadata["documentId"]].append((point.id, metadata["version"]))
        heads = await index.heads(list(versions))
        stale = [
            (document, version, point)
            for document, points in versions.items()
            if (head := heads.get(document)) is not None
            for point, version in points
            if version < head.version
        ]
        if stale:
            for document, version in sorted({(document, version) for document, version, _ in stale}):
                await tombstone(publish, document, version)
            await index.delete_points([point for _, _, point in stale])
            deleted += len(stale)
        if page.after is None:
            break
        after = page.after
    if deleted:
        await index.flush()
        log.info("stale_points_swept", points=deleted)
    return deleted
