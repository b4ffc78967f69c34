"""The last stage on parts in memory."""

from typing import Any

from aiokafka import ConsumerRecord
from prometheus_client import CollectorRegistry

from services.embed_worker.apply import Apply
from services.embed_worker.embed import Embed
from services.embed_worker.vectors import Vectors
from shared.contracts import DEFAULT_TENANT, BlobRef, DocumentChunked, DocumentVersion, LogPosition, encode, truth_key
from shared.runtime.memory_budget import MemoryBudget
from shared.state.index import Head
from shared.state.statuses import Statuses
from shared.store.bm25 import Bm25
from tests.simulation.parts import MemoryBlobs, MemoryEmbedder, ledger_and_index
from tests.simulation.store import MemoryStore

NAME = "11ca04b3-12ec-5b35-8f4b-4ab297c91387"


async def test_given_a_newer_head_when_a_version_is_replayed_then_its_erased_blob_is_not_missed() -> None:
    store, blobs, tombstones = MemoryStore(), MemoryBlobs(), list[bytes]()
    ledger, index = await ledger_and_index(store)
    await index.switch(Head(document_id=NAME, version=2, tenant=DEFAULT_TENANT, source="", path="", deleted=True))

    async def publish(topic: str, value: bytes | None, *, key: bytes, **options: Any) -> Any:
        tombstones.append(key)

    statuses = Statuses(ledger, publish)
    vectors = Vectors(index, MemoryEmbedder(), CollectorRegistry())
    apply = Apply(index=index, vectors=vectors, bm25=Bm25(), publish=publish, statuses=statuses)
    place = LogPosition(partition=0, offset=0, time=1)
    document = DocumentVersion(
        document_id=NAME, version=1, place=place, tenant=DEFAULT_TENANT, source="s", path="p", outcome="created"
    )
    value = encode(DocumentChunked(document=document, blob=BlobRef(sha256="0" * 64, size=1)))
    record = ConsumerRecord("chunks", 0, 0, 1, 1, NAME.encode(), value, None, -1, len(value), ())

    await Embed(apply=apply, blobs=blobs, statuses=statuses, room=MemoryBudget())(record)

    assert tombstones == [truth_key(NAME, 1)]
