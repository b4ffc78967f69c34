"""Deletes points that never answer: below their head after a crash, or of a withdrawn version after a worker froze."""

from collections import defaultdict

import structlog

from shared.log import Publish
from shared.state.index import ATTEMPT, Head, Index
from shared.state.truth import tombstone
from shared.store import Point

log = structlog.get_logger(__name__)


async def sweep(index: Index, publish: Publish) -> int:
    """Return how many stale points were deleted. Idempotent, and safe while others write.

    A point below its head is stale. One above it, or without a head, belongs to a version that is being applied, and
    stays, unless the version was withdrawn and not redriven since. A version below its head gets its tombstone before
    its points are deleted, because only the points show that it existed. A withdrawn version stays in the truth, so
    that it can be redriven.

    Raises:
        Unavailable: the log or the store is away; sweep again.
    """
    deleted = 0
    after: str | None = None
    while True:
        page = await index.versions_page(after=after)
        points: dict[str, list[Point]] = defaultdict(list)
        for point in page.points:
            points[point.payload["metadata"]["documentId"]].append(point)
        for name, head in (await index.fences(list(points))).items():
            deleted += await _delete_below(index, publish, head, points[name])
            deleted += await _delete_withdrawn(index, head, points[name])
        if page.after is None:
            break
        after = page.after
    if deleted:
        await index.flush()
        log.info("stale_points_swept", points=deleted)
    return deleted


async def _delete_below(index: Index, publish: Publish, head: Head, points: list[Point]) -> int:
    stale = [point for point in points if _version(point) < head.version]
    if not stale:
        return 0
    for version in sorted({_version(point) for point in stale}):
        await tombstone(publish, head.document_id, version)
    await index.delete_points([point.id for point in stale])
    return len(stale)


async def _delete_withdrawn(index: Index, head: Head, points: list[Point]) -> int:
    """Return how many points were deleted of versions above the head, which were withdrawn."""
    deleted = 0
    for each in head.withdrawals:
        stale = [p for p in points if _version(p) == each.version and p.payload.get(ATTEMPT, 0) <= each.attempt]
        if stale and each.version > head.version:
            # By attempt and not by id: a redrive may write these points anew meanwhile.
            await index.delete_attempts(head.document_id, each.version, each.attempt)
            deleted += len(stale)
    return deleted


def _version(point: Point) -> int:
    version: int = point.payload["metadata"]["version"]
    return version
