"""The first stage on parts in memory, for its modules' tests."""

from collections.abc import Awaitable
from typing import Any, NamedTuple, Self

from aiokafka import ConsumerRecord

from services.ingest_worker.extract import Extraction, Hints
from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.contracts import (
    DEFAULT_TENANT,
    DocumentExtracted,
    DocumentSubmitted,
    decode,
    encode,
)
from shared.ids import document_id
from shared.log import Record
from shared.runtime.body_budget import MemoryBudget
from shared.state.statuses import Statuses
from shared.topics import EXTRACTED, SUBMITTED
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

NAME = document_id(DEFAULT_TENANT, "s", "p")
PARTITION = 1


class Sent(NamedTuple):
    """What the stage published."""

    topic: str
    value: bytes | None
    options: dict[str, Any]


class FirstStage:
    """The stage on parts in memory, and what it sent."""

    def __init__(self, fetch: Any = None, parsers: Any = None, **options: Any) -> None:
        self.blobs, self.sent = MemoryBlobs(), list[Sent]()
        self._parsers = parsers or ParserPool(1)
        self._fetch, self._options = fetch or Fetcher(Guard(), FetchLimits()), options

    async def begun(self) -> Self:
        self.ledger, index = await ledger_and_index(MemoryStore())
        self.ingest = Ingest(
            ledger=self.ledger,
            index=index,
            blobs=self.blobs,
            parsers=self._parsers,
            publish=self.publish,
            statuses=Statuses(self.ledger, self.publish),
            partition_of=self._partition_of,
            room=MemoryBudget(),
            fetch=self._fetch,
            **self._options,
        )
        return self

    async def publish(self, topic: str, value: bytes | None, **options: Any) -> Any:
        self.sent.append(Sent(topic, value, options))

    async def _partition_of(self, key: bytes) -> int:
        return PARTITION


def record(offset: int, partition: int, document: DocumentSubmitted, key: bytes | None) -> Record:
    """Return a record of documents.submitted; the later its offset, the later it came."""
    value = encode(document)
    return ConsumerRecord(SUBMITTED, partition, offset, 1000 * offset, 1, key, value, None, -1, len(value), ())


class ChangingParser:
    """A parser pool that reads something else each time."""

    def __init__(self) -> None:
        self.said = 0

    async def extract(self, body: bytes, hints: Hints, **about: Any) -> Extraction:
        self.said += 1
        return Extraction(text=f"Reading {self.said}.", document_type="txt", pages=(0,))


def texts_of(stage: FirstStage) -> list[tuple[str | None, str | None]]:
    """Return the text of each event, and the one that its blob has."""
    events = [decode(each.value, DocumentExtracted) for each in stage.sent if each.topic == EXTRACTED]
    blobs = [stage.blobs.text(DEFAULT_TENANT, NAME, event.document.text_sha256 or "") for event in events]
    return [(event.text, blob) for event, blob in zip(events, blobs, strict=True)]


class SlowParser(ChangingParser):
    """A parser pool during whose work something else happens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile = list[Awaitable[None]]()

    async def extract(self, body: bytes, hints: Hints, **about: Any) -> Extraction:
        if self.meanwhile:
            await self.meanwhile.pop()
        return await super().extract(body, hints, **about)
