"""The first stage on parts in memory."""

from typing import Any

from aiokafka import ConsumerRecord

from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.blobs import CLAIM_CHECK_BYTES
from shared.contracts import DEFAULT_TENANT, DocumentSubmitted, encode, erasure
from shared.ids import document_id
from shared.index import Index
from shared.ledger import Ledger
from shared.log import Record
from shared.room import Room
from shared.statuses import Statuses
from shared.topics import SUBMITTED
from tests.simulation.parts import GENERATION, Characters, MemoryBlobs
from tests.simulation.store import MemoryStore

NAME = document_id(DEFAULT_TENANT, "s", "p")


def record(offset: int, partition: int, document: DocumentSubmitted, key: bytes | None) -> Record:
    """Return a record of documents.submitted; the later its offset, the later it came."""
    value = encode(document)
    return ConsumerRecord(SUBMITTED, partition, offset, 1000 * offset, 1, key, value, None, -1, len(value), ())


async def test_a_replay_writes_no_foreign_record_anew_that_was_erased_since() -> None:
    store, blobs, sent = MemoryStore(), MemoryBlobs(), list[str]()
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        sent.append(topic)

    async def partition_of(key: bytes) -> int:
        return 1

    ingest = Ingest(
        ledger=ledger,
        index=index,
        blobs=blobs,
        parsers=ParserPool(1, tokens=Characters()),
        publish=publish,
        statuses=Statuses(ledger, publish),
        partition_of=partition_of,
        room=Room(),
    )
    secret = "a secret of many words " * (CLAIM_CHECK_BYTES // 20)
    foreign = record(1, 0, DocumentSubmitted(source="s", path="p", text=secret), None)
    await ingest(foreign)
    assert sent == [SUBMITTED], "this is how it gets to its own partition"
    await ingest(record(2, 1, erasure(DEFAULT_TENANT, NAME), NAME.encode()))
    await blobs.delete(DEFAULT_TENANT, NAME)
    sent.clear()

    await ingest(foreign)

    assert sent == []
    assert await blobs.delete(DEFAULT_TENANT, NAME) == 0
