"""Deletes points below their head: what a crash between the switch and the delete left behind."""

from collections import defaultdict

import structlog

from shared.state.index import Index

log = structlog.get_logger(__name__)


async def sweep(index: Index) -> int:
    """Return how many stale points were deleted. Repeating it, or running it beside writers, does no harm.

    A point above its head, or without one, belongs to a version that is being applied: it stays.
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
            point
            for document, points in versions.items()
            if (head := heads.get(document)) is not None
            for point, version in points
            if version < head.version
        ]
        if stale:
            await index.delete_points(stale)
            deleted += len(stale)
        if page.after is None:
            break
        after = page.after
    if deleted:
        await index.flush()
        log.info("stale_points_swept", points=deleted)
    return deleted
