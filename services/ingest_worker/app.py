"""Wiring: documents.submitted -> ingest -> documents.extracted -> chunking -> chunks.<generation>."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from faststream.kafka import KafkaBroker

from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.chunking import Chunking
from services.ingest_worker.crawl import Bounds
from services.ingest_worker.extract import EXTRACTOR
from services.ingest_worker.fetch import Fetch, fetcher_of
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool, parser_pool
from services.ingest_worker.rebuild.rebuilder import Rebuilder
from shared.blobs import Blobs
from shared.log.consume import Consumption, consume
from shared.log.dead_letters import DeadLetters
from shared.log.publish import partition_for, publish
from shared.runtime.memory_budget import MemoryBudget
from shared.runtime.process import RunningService
from shared.runtime.resources import Resources, open_resources
from shared.settings import Settings
from shared.state.index import Index
from shared.state.ledger import Ledger
from shared.state.statuses import Statuses, dead_letter
from shared.topics import EXTRACTED, SUBMITTED, readers


@dataclass(frozen=True, kw_only=True)
class IngestParts:
    """What the stages are made of; whoever made the parts starts and stops them."""

    ledger: Ledger
    index: Index
    blobs: Blobs
    parsers: ParserPool
    fetch: Fetch
    bounds: Bounds = field(default_factory=Bounds)  # of crawls


async def opened(base: Resources, settings: Settings, stack: AsyncExitStack) -> IngestParts:
    """Return the parts on a foundation; `stack` ends those that are the stages' own. Raises ConfigurationError."""
    await base.index.note_extractor(EXTRACTOR)
    parsers = parser_pool(settings, base.embedder.tokens)
    stack.push_async_callback(parsers.close)
    fetcher = fetcher_of(settings)
    stack.push_async_callback(fetcher.close)
    return IngestParts(
        ledger=base.ledger,
        index=base.index,
        blobs=base.blobs,
        parsers=parsers,
        fetch=fetcher,
        bounds=Bounds(depth=settings.fetch_depth, pages=settings.fetch_pages, robots=settings.fetch_robots == "on"),
    )


def join(broker: KafkaBroker, parts: IngestParts) -> list[Consumption]:
    """Return the two stages, subscribed on a broker that isn't started yet."""
    send = partial(publish, broker)
    statuses = Statuses(parts.ledger, send)
    ingest = Ingest(
        ledger=parts.ledger,
        index=parts.index,
        blobs=parts.blobs,
        parsers=parts.parsers,
        publish=send,
        statuses=statuses,
        partition_of=partial(partition_for, broker, SUBMITTED),
        room=MemoryBudget(),
        fetch=parts.fetch,
        bounds=parts.bounds,
    )
    groups = readers(parts.index.generation.id)
    chunking = Chunking(
        ledger=parts.ledger,
        index=parts.index,
        blobs=parts.blobs,
        parsers=parts.parsers,
        publish=send,
        statuses=statuses,
        room=MemoryBudget(),
    )
    return [
        consume(
            broker,
            SUBMITTED,
            groups[SUBMITTED],
            ingest,
            stage="ingest",
            on_dead=dead_letter(DeadLetters(broker, parts.blobs, ingest.owner), ingest.failed),
            before_commit=parts.index.flush,
        ),
        consume(
            broker,
            EXTRACTED,
            groups[EXTRACTED],
            chunking,
            stage="chunk",
            on_dead=dead_letter(DeadLetters(broker, parts.blobs, chunking.owner), chunking.failed),
            before_commit=parts.index.flush,  # what failed here has its status in the store
        ),
    ]


def keep_whole(base: Resources, broker: KafkaBroker, stack: AsyncExitStack) -> None:
    """Rebuild what the store has lost or loses, until `stack` ends."""
    rebuilder = Rebuilder(
        log=base.log,
        store=base.store,
        index=base.index,
        gate=base.gate,
        publish=partial(publish, broker),
        restore=base.restore,
    )
    watching = asyncio.create_task(rebuilder.watch())
    stack.callback(watching.cancel)


async def start(settings: Settings, stack: AsyncExitStack) -> RunningService:
    """Return the worker, started, for a process of its own. Raises as `open_resources` does."""
    base = await open_resources(settings, stack, chunker=CHUNKER, attach=True)
    parts = await opened(base, settings, stack)
    broker = base.log.broker("ingest-worker")
    stages = join(broker, parts)
    troubles = await base.begin(broker, stages, stack)
    keep_whole(base, broker, stack)
    return RunningService(troubles=troubles, registry=base.registry)
