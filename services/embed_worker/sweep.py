"""Removes what never answers: points below their head or of a withdrawn version, and old versions in the truth.

It also shortens the ledger's entries of deleted documents, which stay for ever.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from shared.log import Publish
from shared.state.batching import grouped
from shared.state.index import ATTEMPT, Head, Index
from shared.state.ledger import REMEMBERED_MS, Entry, Ledger, shortened
from shared.state.version_deletion import forget, forget_surplus, tombstone
from shared.store import EVERYTHING, Filter, Match, Point, Range

log = structlog.get_logger(__name__)

PAGE = 64  # entries or points read at a time; nothing else of the store runs meanwhile
LONGEST_REST_S = 1.0  # a page that waited for a busy store says little of the work in it
Rest = Callable[[], Awaitable[None]]  # called after each page


def throttle(
    share: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Rest:
    """Return a pause after each page, so that all pages together take a share of the time, above 0 and at most 1.

    The first page begins now. `clock` (seconds) and `pause` are for tests.
    """
    since = clock()

    async def rest() -> None:
        nonlocal since
        await pause(min(LONGEST_REST_S, (1 / share - 1) * (clock() - since)))
        since = clock()

    return rest


async def _at_once() -> None: ...


async def sweep(index: Index, ledger: Ledger, publish: Publish, rest: Rest = _at_once) -> int:
    """Return how many stale points and old versions were removed. Idempotent, and safe while others write.

    Raises:
        Unavailable: the log or the store is away; sweep again.
    """
    points, versions = await sweep_points(index, publish, rest), await sweep_truth(index, ledger, publish, rest)
    if points or versions:
        log.info("swept", points=points, versions=versions)
    return points + versions


async def sweep_truth(index: Index, ledger: Ledger, publish: Publish, rest: Rest = _at_once) -> int:
    """Return how many versions were removed from the truth: those below their head, and surplus failed ones.

    Usually, the worker that switched versions or wrote the failure has removed them already.
    """
    removed = 0
    async for entries in ledger.pages(EVERYTHING, limit=PAGE):
        several = {entry.document_id: entry for entry in entries if len(entry.published) > 1}
        for name, head in (await index.heads(list(several))).items():
            old = [version for version in several[name].published if version < head.version]
            if old:
                await forget(ledger, publish, name, old)
                removed += len(old)
        for entry in entries:
            if entry.surplus:
                removed += await forget_surplus(index, ledger, publish, entry.document_id)
        await rest()
    return removed


async def shorten_deleted(ledger: Ledger, since: int = 0, now: int | None = None) -> int:
    """Shorten the entries of documents deleted since then, and return the `since` of the next call.

    Times are the log's, in ms since 1970. `now` None means the time of the ledger's newest change, not the machine's
    clock: a clock that is ahead would drop ends that somebody still waits for.

    Raises:
        Unavailable: the store is away, or the ledger is being rebuilt.
    """
    if now is None:
        newest = await ledger.page(EVERYTHING, limit=1)
        now = newest[0].updated_at if newest else 0
    until = now - REMEMBERED_MS
    deleted = Filter(must=(Match("last.status", ("deleted",)), Range("updatedAt", gte=since, lt=until)))

    def short(seen: Entry | None) -> Entry | None:
        after = None if seen is None else shortened(seen, now)
        return None if after == seen else after

    async for entries in ledger.pages(deleted, limit=PAGE):
        for entry in entries:
            await ledger.update(entry.document_id, short)
    return max(since, until)


async def sweep_points(index: Index, publish: Publish, rest: Rest = _at_once) -> int:
    """Return how many stale points were deleted.

    A point below its head is stale. One above it, or without a head, belongs to a version that is being applied, and
    stays, unless the version was withdrawn and not redriven since. A version below its head gets its tombstone before
    its points are deleted, because only the points show that it existed. A withdrawn version stays in the truth, so
    that it can be redriven.
    """
    deleted = 0
    async for page in index.versions(PAGE):
        points = grouped(page, lambda point: str(point.payload["metadata"]["documentId"]))
        for name, head in (await index.fences(list(points))).items():
            deleted += await _delete_below(index, publish, head, points[name])
            deleted += await _delete_withdrawn(index, head, points[name])
        await rest()
    if deleted:
        await index.flush()
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
