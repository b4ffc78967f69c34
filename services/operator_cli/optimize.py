"""Runs `sluice optimize`: the upkeep of log, index and blobs, now. Reports the bytes that each part freed."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from services.embed_worker.blob_collector import BlobCollector
from services.operator_cli.installation import audited, opened_log, opened_store
from services.operator_cli.terminal import CommandProgress
from shared.blobs import Blobs
from shared.blobs.open import open_blobs
from shared.contracts import Message
from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.state.ledger import Ledger
from shared.store import Store
from shared.store.edge import EdgeStore


class OptimizedPart(Message, frozen=True, kw_only=True):
    """The size of one part on the disk, before and after."""

    part: str  # log, store or blobs
    before: int | None = None  # bytes; None: it is on a server
    after: int | None = None
    note: str = ""

    @property
    def freed(self) -> int:
        """Return how many bytes were freed; negative if more was written meanwhile."""
        return (self.before or 0) - (self.after or 0)


class Optimized(Message, frozen=True, kw_only=True):
    """What was freed."""

    parts: tuple[OptimizedPart, ...]
    freed: int  # bytes
    seconds: float


async def optimize(settings: Settings, watch: CommandProgress) -> Optimized:
    """Return what was freed. Blobs come last, because compaction may delete the last record that names one.

    Raises:
        ConfigurationError: there is no log yet. Unavailable: a part is away, or a backup is being made.
    """
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(opened_log(settings))
        store = await opened_store(settings, stack)
        await stack.enter_async_context(audited(log, settings, "optimize"))
        watch.begin("log", 0)
        parts = [await _log(log), await _store(store, watch)]
        watch.begin("blobs", 0)
        parts.append(await _blobs(settings, log, store))
    freed = sum(part.freed for part in parts)
    return Optimized(parts=tuple(parts), freed=freed, seconds=round(time.monotonic() - began, 1))


async def _log(log: Log) -> OptimizedPart:
    if not isinstance(log, SqliteLog):
        return OptimizedPart(part="log", note="the Kafka cluster compacts and deletes by itself")
    before = log.disk_bytes()
    await log.keep_up()
    return OptimizedPart(part="log", before=before, after=log.disk_bytes())


async def _store(store: Store, watch: CommandProgress) -> OptimizedPart:
    if not isinstance(store, EdgeStore):
        return OptimizedPart(part="store", note="the Qdrant server optimizes by itself")
    await store.flush()
    sizes = await store.sizes()
    before = sum(size.disk_bytes for size in sizes)
    worn = [size for size in sizes if size.dead]
    dead = sum(size.dead for size in worn)
    note = f"{dead} dead points in {len(worn)} collections" if dead else "no dead points"
    watch.begin("store", len(worn))
    for size in worn:
        await store.rewrite(size.name)
        watch.step(1)
    after = sum(size.disk_bytes for size in await store.sizes())
    return OptimizedPart(part="store", before=before, after=after, note=note)


async def _blobs(settings: Settings, log: Log, store: Store) -> OptimizedPart:
    blobs = open_blobs(settings.blobs, settings.data)
    collector = BlobCollector(log=log, store=store, ledger=Ledger(store), blobs=blobs, registry=CollectorRegistry())
    before = await _weight(blobs)
    found = await collector.collect()
    note = f"{found.unowned_bytes} bytes have no owner and go in a day" if found.unowned_bytes else ""
    return OptimizedPart(part="blobs", before=before, after=await _weight(blobs), note=note)


async def _weight(blobs: Blobs) -> int:
    return sum([blob.size async for some in blobs.stored() for blob in some])


def optimized_lines(done: Optimized) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    for part in done.parts:
        note = f"  {part.note}" if part.note else ""
        if part.before is None or part.after is None:
            yield f"{part.part:5}  {part.note}"
        else:
            yield f"{part.part:5}  {part.before / 1e6:9.1f} MB -> {part.after / 1e6:9.1f} MB{note}"
    yield f"Freed {done.freed / 1e6:.1f} MB in {done.seconds:.1f} s"
