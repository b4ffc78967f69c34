"""Every stage has room for large bodies before it reads one, so that a backlog of them never is in memory."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.embed import Embed
from services.embed_worker.vectors import VectorMetrics, Vectors
from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.chunking import Chunking
from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.contracts import DocumentChunked, DocumentExtracted, DocumentSubmitted, encode
from shared.ids import document_id
from shared.runtime.body_budget import MemoryBudget
from shared.state.index import Generation, Index
from shared.state.ledger import Ledger
from shared.state.statuses import Statuses
from shared.store.bm25 import Bm25
from tests.builders import a_version, an_event, chunks_of
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.embedder import MemoryEmbedder
from tests.fakes.store import MemoryStore
from tests.fakes.tokens import Characters

GENERATION = Generation(chunker=CHUNKER, chunk_size=800, chunk_overlap=0, model=MemoryEmbedder.model, bm25="none")
BODY_BYTES = 1000
FIT, COME = 3, 5  # bodies


Handler = Callable[[str, str], Coroutine[Any, Any, None]]  # handles a document of this id and path


class Bench:
    """The stages, each with room for a few bodies; what comes after its reading waits for the gate."""

    def __init__(self) -> None:
        self.embedder = MemoryEmbedder()
        self.gate = self.embedder.answers
        self.gate.clear()
        self.blobs = MemoryBlobs()
        self.room = MemoryBudget(FIT * BODY_BYTES)
        self.ledger, self.index = Ledger(store := MemoryStore()), Index(store, GENERATION)
        self.statuses = Statuses(self.ledger, self.publish)
        self.parsers = ParserPool(1)  # starts no process for texts as small as these

    async def publish(self, topic: str, value: bytes | None, **how: Any) -> Any:
        await self.gate.wait()

    async def in_partition_0(self, key: bytes) -> int:
        return 0

    def ingest(self) -> Handler:
        ingest = Ingest(
            ledger=self.ledger,
            index=self.index,
            blobs=self.blobs,
            parsers=self.parsers,
            publish=self.publish,
            statuses=self.statuses,
            partition_of=self.in_partition_0,
            room=self.room,
            fetch=Fetcher(Guard(), FetchLimits()),
        )

        async def handle(name: str, path: str) -> None:
            blob = await self.blobs.put("t", name, b"A lantern.".ljust(BODY_BYTES))
            submitted = DocumentSubmitted(tenant="t", source="s", path=path, blob=blob, media_type="text/markdown")
            await ingest(an_event(0, name.encode(), encode(submitted)))

        return handle

    def chunking(self) -> Handler:
        chunking = Chunking(
            index=self.index,
            blobs=self.blobs,
            parsers=self.parsers,
            tokens=Characters(),
            publish=self.publish,
            statuses=self.statuses,
            room=self.room,
        )

        async def handle(name: str, path: str) -> None:
            blob = await self.blobs.put("t", name, b"A lantern.".ljust(BODY_BYTES))
            version = a_version(document_id=name, tenant="t", text_sha256=blob.sha256, text_size=blob.size)
            await chunking(an_event(0, name.encode(), encode(DocumentExtracted(document=version))))

        return handle

    def embed(self) -> Handler:
        vectors = Vectors(self.index, self.embedder, VectorMetrics(CollectorRegistry()))
        embed = Embed(
            index=self.index,
            vectors=vectors,
            bm25=Bm25(),
            publish=self.publish,
            statuses=self.statuses,
            blobs=self.blobs,
            room=self.room,
        )

        async def handle(name: str, path: str) -> None:
            chunks = msgspec.json.encode(chunks_of(f"The lantern of {path}.")).ljust(BODY_BYTES)
            blob = await self.blobs.put("t", name, chunks)
            version = a_version(document_id=name, tenant="t")
            await embed(an_event(0, name.encode(), encode(DocumentChunked(document=version, blob=blob))))

        return handle


@pytest.mark.parametrize("stage", [Bench.ingest, Bench.chunking, Bench.embed])
async def test_a_stage_reads_no_more_large_bodies_than_it_has_room_for(stage: Callable[[Bench], Handler]) -> None:
    bench = Bench()
    await asyncio.gather(bench.ledger.create(), bench.index.create())
    handle = stage(bench)
    paths = [f"{number}.md" for number in range(COME)]

    handling = [asyncio.create_task(handle(document_id("t", "s", path), path)) for path in paths]
    for _ in range(1000):  # more turns than any of them takes to its reading
        await asyncio.sleep(0)
    read_at_once = bench.blobs.reads
    bench.gate.set()
    await asyncio.gather(*handling)

    assert read_at_once == FIT
    assert bench.blobs.reads == COME
