"""An ingest worker's two stages on a log, and what a test asks of them."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType

from services.ingest_worker.app import join_chunking, join_forwarders, join_ingest
from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.chunking import Chunking
from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.blobs.file import FileBlobs
from shared.contracts import DeadLetter, DocumentExtracted, LogPosition, decode
from shared.embedder import Model
from shared.log import Log, Record
from shared.log.publish import partition_for, publish
from shared.state.index import Generation, Index
from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from shared.store.edge import EdgeStore
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, Topic, pipeline_topics
from tests.contract.logs import reading, take, until
from tests.fakes.tokens import Words

MODEL = Model(name="none", digest="none", dimension=4, max_tokens=256)
GENERATION = Generation(chunker=CHUNKER, chunk_size=800, chunk_overlap=0, model=MODEL, bm25="none")


class FirstStages:
    """An ingest worker's two stages, with nothing behind them."""

    def __init__(self, log: Log, ledger: Ledger) -> None:
        self.log = log
        self.ledger = ledger

    async def accepted(self, name: str, place: LogPosition) -> Entry:
        """Return the entry once the submission at `place` has made a version."""
        found: list[Entry] = []

        async def there() -> bool:
            entry = await self.ledger.get(name)
            if entry is not None and entry.accepted.place == place:
                found.append(entry)
            return bool(found)

        await until(there)
        return found[0]

    async def idle(self) -> bool:
        """Return whether everything submitted has been worked on."""
        return await self.log.committed("ingest", SUBMITTED) == await self.log.end_offsets(SUBMITTED)

    async def records(self, topic: str) -> list[Record]:
        ends = await self.log.end_offsets(topic)
        async with AsyncExitStack() as users:
            consumer = await reading(users, self.log.consumer(auto_offset_reset="earliest"), ends)
            return await take(consumer, sum(ends.values()))

    async def versions(self) -> dict[str, list[DocumentExtracted]]:
        """Return each document's versions, oldest first."""
        found: dict[str, list[DocumentExtracted]] = {}
        for record in await self.records(EXTRACTED):
            event = decode(record.value, DocumentExtracted)
            found.setdefault(event.document.document_id, []).append(event)
        for events in found.values():
            events.sort(key=lambda event: event.document.version)
        return found

    async def dead_letters(self) -> list[DeadLetter]:
        return [decode(record.value, DeadLetter) for record in await self.records(DEAD_LETTERS)]


async def first_stages(
    log: Log,
    folder: Path,
    users: AsyncExitStack,
    *,
    topics: Mapping[str, str] = MappingProxyType({}),
    fetch: Fetcher | None = None,
) -> FirstStages:
    """Return the stages, running on a log that isn't started yet; `users` stops all of it."""
    store = EdgeStore(folder / "store")
    parsers = ParserPool(1)
    for close in (log.stop, store.close, parsers.close):
        users.push_async_callback(close)
    await asyncio.gather(log.start(), store.start())
    ledger, index = Ledger(store), Index(store, GENERATION)
    wanted = (*pipeline_topics(GENERATION.id), *(Topic(name=name) for name in topics))
    await asyncio.gather(ledger.create(), index.create(), log.ensure_topics(wanted))
    broker = log.broker("ingest-worker")
    send = partial(publish, broker)
    ingest = Ingest(
        ledger=ledger,
        index=index,
        blobs=FileBlobs(folder / "blobs"),
        parsers=parsers,
        publish=send,
        statuses=Statuses(ledger, send),
        partition_of=partial(partition_for, broker, SUBMITTED),
        fetch=fetch or Fetcher(Guard(), FetchLimits()),
    )
    chunking = Chunking(
        index=index, blobs=ingest.blobs, parsers=parsers, tokens=Words(), publish=send, statuses=ingest.statuses
    )
    chunked = join_chunking(broker, ingest, chunking)
    consumptions = [join_ingest(broker, ingest), chunked, *join_forwarders(broker, ingest, topics)]
    users.push_async_callback(broker.stop)
    await broker.start()
    for consumption in consumptions:
        users.push_async_callback(consumption.stop)
    return FirstStages(log, ledger)
