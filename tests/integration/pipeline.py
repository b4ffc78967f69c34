"""The stages together in one process, on the standalone adapters, fed through the log."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from services.operator_cli.terminal import CommandProgress
from services.operator_cli.verify.command import opened
from services.query_api.app import ApiParts
from services.standalone.serve import start
from shared.contracts import DeadLetter, DocumentSubmitted, LogPosition, decode, encode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log import Log, Record
from shared.log.headers import sent_position
from shared.log.read import reading
from shared.settings import Settings
from shared.state.index import vector_hash
from shared.state.ledger import Entry
from shared.store import Payload
from shared.topics import DEAD_LETTERS, SUBMITTED

Points = dict[str, tuple[Payload, str]]  # by id: the payload, and a hash of the vector


async def points_of(settings: Settings, generation: str | None = None) -> Points:
    """Return every point of a generation, by default of the one that serves."""
    async with opened(settings, generation) as parts:
        page = await parts.store.scroll(parts.generation.chunks, limit=2000, vectors=True)
    assert page.after is None
    return {point.id: (point.payload, vector_hash(point.dense)) for point in page.points if point.dense is not None}


async def records_of(log: Log, topic: str) -> list[Record]:
    """Return all records of a topic, a partition after the other."""
    found: list[Record] = []
    for tp in await log.end_offsets(topic):
        async with reading(log, tp) as reader:
            found += [record async for record in reader.between(*await reader.bounds())]
    return found


class Quiet(CommandProgress):
    """A progress that nobody looks at."""


class Pipeline:
    """The running stages, and what a test asks of them."""

    def __init__(self, parts: ApiParts, settings: Settings) -> None:
        self.parts = parts
        self.settings = settings

    async def send(self, document: DocumentSubmitted | bytes | None, within_s: float = 30, **how: Any) -> Entry:
        """Put a submission on the log, and return the entry when it has ended."""
        return await self.end(*await self.put(document, **how), within_s)

    async def put(self, document: DocumentSubmitted | bytes | None, **how: Any) -> tuple[str, LogPosition]:
        """Put a submission on the log, and return the document's id and the submission's place."""
        value = encode(document) if isinstance(document, DocumentSubmitted) else document
        fields = document if isinstance(document, DocumentSubmitted) else how.pop("of")
        name = document_id(fields.tenant, fields.source, fields.path)
        written = await self.parts.publish(SUBMITTED, value, key=how.pop("key", name.encode()), **how)
        return name, sent_position(written, self.parts.log.moves)

    async def end(self, name: str, place: LogPosition, within_s: float = 30) -> Entry:
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

    async def records(self, topic: str) -> list[Record]:
        """Return all records of a topic."""
        return await records_of(self.parts.log, topic)

    async def dead_letters(self) -> list[DeadLetter]:
        return [decode(record.value, DeadLetter) for record in await self.records(DEAD_LETTERS)]


@asynccontextmanager
async def running(data: Path, **settings: Any) -> AsyncIterator[Pipeline]:
    """Give the stages, started on a folder that may be there already."""
    chosen = Settings(data=data, samples="off", chat="extractive:", **settings)
    async with AsyncExitStack() as stack:
        yield Pipeline(await start(chosen, stack), chosen)
