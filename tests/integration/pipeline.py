"""The stages together in one process, on the standalone adapters, fed through the log."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from services.query_api.app import Parts
from services.standalone.serve import start
from shared.contracts import DeadLetter, DocumentSubmitted, Place, decode, encode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.ledger import Entry
from shared.log.open import open_log
from shared.settings import Settings
from shared.topics import DEAD_LETTERS, SUBMITTED


class Pipeline:
    """The running stages, and what a test asks of them."""

    def __init__(self, parts: Parts, settings: Settings) -> None:
        self.parts = parts
        self.settings = settings

    async def send(self, document: DocumentSubmitted | bytes | None, **how: Any) -> Entry:
        """Put a submission on the log, and return the entry when it has ended."""
        value = encode(document) if isinstance(document, DocumentSubmitted) else document
        fields = document if isinstance(document, DocumentSubmitted) else how.pop("of")
        name = document_id(fields.tenant, fields.source, fields.path)
        written = await self.parts.publish(SUBMITTED, value, key=how.pop("key", name.encode()), **how)
        place = Place(partition=written.partition, offset=written.offset, time=written.timestamp)
        return await self.end(name, place)

    async def end(self, name: str, place: Place, within_s: float = 30) -> Entry:
        """Return the entry when the submission at the place has ended."""

        async def look() -> Entry | None:
            try:
                entry = await self.parts.ledger.get(name)
            except Unavailable:
                return None
            return entry if entry is not None and entry.ended(place) else None

        entry = await self.parts.notices.until(name, look, within_s)
        assert entry is not None, f"{name} never ended"
        return entry

    async def texts(self, name: str) -> list[str]:
        """Return what the index answers for a document."""
        head = await self.parts.index.head(name)
        if head is None or head.deleted:
            return []
        page = await self.parts.index.chunks_page(name, head.version, start=0, limit=1000)
        return [payload["text"] for payload in page]

    async def points(self, name: str) -> int:
        """Return how many points the document has, of whatever version."""
        return await self.parts.index.points(name)

    def embedded(self) -> float:
        return self.parts.registry.get_sample_value("sluice_embedded_texts_total") or 0

    async def records(self, topic: str) -> list[Any]:
        """Return all records of a topic."""
        log = open_log(self.settings.log, self.settings.data)
        await log.start()
        consumer = log.consumer()
        partitions = list(await log.end_offsets(topic))
        consumer.assign(partitions)
        await consumer.start()
        try:
            found: list[Any] = []
            await consumer.seek_to_beginning(*partitions)
            while batch := await consumer.getmany(timeout_ms=300):
                found += [record for records in batch.values() for record in records]
            return found
        finally:
            await consumer.stop()
            await log.stop()

    async def dead_letters(self) -> list[DeadLetter]:
        return [decode(record.value, DeadLetter) for record in await self.records(DEAD_LETTERS)]


@asynccontextmanager
async def running(data: Path, **settings: Any) -> AsyncIterator[Pipeline]:
    """Give the stages, started on a folder that may be there already."""
    chosen = Settings(data=data, samples="off", chat="extractive:", **settings)
    async with AsyncExitStack() as stack:
        yield Pipeline(await start(chosen, stack), chosen)
