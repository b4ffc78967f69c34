"""What only a real Qdrant server can show: its key, its strict mode, replicas."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from uuid import UUID, uuid4

import numpy as np
import pytest
import pytest_asyncio
from msgspec.structs import replace
from qdrant_client import AsyncQdrantClient, models

from shared.embedder import Model
from shared.errors import Rejected
from shared.settings import ConfigurationError
from shared.state.generations import first_registry, serving
from shared.state.index import Generation, Head, Index, of_document, vector_hash
from shared.state.ledger import COLLECTION, End, Ledger, finished
from shared.store import EVERYTHING, Filter, Leg, Match, Point, Sparse
from shared.store.qdrant.store import LEAST, QdrantStore, make_client
from tests.builders import an_entry
from tests.servers.qdrant import QdrantServer

pytestmark = pytest.mark.server
SIZE = 8
GENERATION = Generation(
    chunker="c1",
    chunk_size=800,
    chunk_overlap=0,
    model=Model(name="m", digest="d", dimension=SIZE, max_tokens=256),
    bm25="b",
)
DOCUMENT = str(UUID(int=1))
VECTOR = np.eye(SIZE, dtype=np.float32)[0]
STRICT = models.StrictModeConfig.model_validate(
    {
        "enabled": True,
        "unindexed_filtering_retrieve": False,
        "unindexed_filtering_update": False,
        "upsert_max_batchsize": 10,
        **LEAST,
    }
)
Open = Callable[..., QdrantStore]


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid4().hex[:8]}."


@pytest.fixture
def opened(qdrant_server: QdrantServer, prefix: str) -> Open:
    """Return what makes stores of one prefix, not started."""
    return partial(QdrantStore, qdrant_server.address, qdrant_server.api_key, prefix)


@pytest_asyncio.fixture
async def store(opened: Open) -> AsyncIterator[QdrantStore]:
    made = opened()
    await made.start()
    yield made
    for name in await made.collections():
        await made.drop_collection(name)
    await made.close()


@pytest_asyncio.fixture
async def vendor(qdrant_server: QdrantServer) -> AsyncIterator[AsyncQdrantClient]:
    """Yield the client as an operator would use it."""
    client = make_client(qdrant_server.address, qdrant_server.api_key, timeout_s=30)
    yield client
    await client.close()


async def test_a_wrong_key_stops_the_start(qdrant_server: QdrantServer) -> None:
    if qdrant_server.api_key is None:
        pytest.skip("this server asks for no key")
    for key, message in (("wrong", "isn't the server's"), (None, "isn't set")):
        store = QdrantStore(qdrant_server.address, key)
        with pytest.raises(ConfigurationError, match=f"SLUICE_QDRANT_API_KEY {message}"):
            await store.start()
        await store.close()


async def test_processes_that_start_together_make_each_collection_once(store: QdrantStore, opened: Open) -> None:
    others = [opened() for _ in range(4)]
    await asyncio.gather(*(other.start() for other in others))

    await asyncio.gather(*(Index(each, GENERATION).create() for each in (store, *others)))
    agreed = await asyncio.gather(*(serving(each, first_registry(GENERATION)) for each in (store, *others)))

    assert await store.collections() == sorted([GENERATION.chunks, GENERATION.heads, "generations"])
    assert agreed == [first_registry(GENERATION)] * 5
    for other in others:
        await other.close()


async def test_a_replicated_collection_reads_back_what_was_written(
    qdrant_server: QdrantServer, vendor: AsyncQdrantClient, prefix: str
) -> None:
    store = QdrantStore(replace(qdrant_server.address, replicas=3, shards=2), qdrant_server.api_key, prefix)
    await store.start()

    ledger = Ledger(store)
    await ledger.create()
    written = await ledger.update(DOCUMENT, lambda _: an_entry(DOCUMENT))
    params = (await vendor.get_collection(prefix + COLLECTION)).config.params
    await store.drop_collection(COLLECTION)
    await store.close()

    assert written == replace(an_entry(DOCUMENT), rev=1, writer=written.writer if written else "")
    assert (params.replication_factor, params.write_consistency_factor, params.shard_number) == (3, 2, 2)


async def test_index_and_ledger_work_in_strict_mode(store: QdrantStore, vendor: AsyncQdrantClient, prefix: str) -> None:
    index, ledger = await strict_parts(store, vendor, prefix)

    points = [a_chunk(number, version=1 + number // 30) for number in range(60)]
    await index.put(points)
    assert (await index.present([point.id for point in points])).keys() == {point.id for point in points}
    assert await index.points(DOCUMENT) == 60
    assert await index.version_points(DOCUMENT, 1) == 30
    await index.put([a_chunk(60, version=9)], 1)
    await index.withdraw(Head(document_id=DOCUMENT, version=9, tenant="t", source="s", path="p"))
    await index.delete_attempts(DOCUMENT, 9, 0)
    assert await index.version_points(DOCUMENT, 9) == 1
    await index.delete_attempts(DOCUMENT, 9, 1)
    known = await index.known("t", [f"hash {number}" for number in range(512)])
    assert len(known) == 60
    await index.switch(Head(document_id=DOCUMENT, version=2, tenant="t", source="s", path="p"))
    await index.delete_below(DOCUMENT, 2)
    assert [each["text"] for each in await index.chunks_page(DOCUMENT, 2, start=29, limit=2)] == ["text 59"]
    assert len([each async for page in index.versions() for each in page]) == 30
    assert [head.version for head in (await index.heads_page())[0]] == [2]
    tagged = Filter(must=(Match("metadata.tags", ("red",)), Match("metadata.source", ("s",))))
    legs = [Leg(dense=VECTOR), Leg(sparse=Sparse([7], [1.0]))]
    assert [len(hits) for hits in await index.search("t", legs, tagged, limit=1000)] == [30, 30]
    await index.delete_version(DOCUMENT, 2)
    assert await store.count(GENERATION.chunks, of_document(DOCUMENT)) == 0

    await ledger.update(DOCUMENT, lambda _: an_entry(DOCUMENT, accepted=5, tenant="t", tags=("red",)))
    await ledger.update(DOCUMENT, lambda entry: finished(entry, 5, End("created", 9, chunk_count=1)))
    created = Filter(must=(Match("tenant", ("t",)), Match("last.status", ("created",)), Match("tags", ("red",))))
    assert [entry.document_id for entry in await ledger.page(created, limit=1000)] == [DOCUMENT]


async def test_a_search_by_a_field_without_an_index_is_rejected_by_its_name(
    store: QdrantStore, vendor: AsyncQdrantClient, prefix: str
) -> None:
    index, _ = await strict_parts(store, vendor, prefix)

    with pytest.raises(Rejected, match=r"refuse.*Index required.*metadata\.subjectId"):
        await index.search("t", [Leg(dense=VECTOR)], Filter(must=(Match("metadata.subjectId", ("x",)),)), limit=5)
    with pytest.raises(Rejected, match=r"refuse.*1017 > 1016"):
        await index.search("t", [Leg(dense=VECTOR)], EVERYTHING, limit=1001)


async def test_a_strict_mode_that_allows_too_little_stops_the_start(
    store: QdrantStore, vendor: AsyncQdrantClient, prefix: str
) -> None:
    await Ledger(store).create()
    limits = models.StrictModeConfig(enabled=True, max_query_limit=10, search_allow_exact=False)
    await vendor.update_collection(prefix + COLLECTION, strict_mode_config=limits)

    message = f"{prefix}{COLLECTION}.*max_query_limit 10, at least 1016 is needed; search_allow_exact false"
    with pytest.raises(ConfigurationError, match=message):
        await Ledger(store).create()


async def test_writes_wait_as_a_server_asks_that_limits_their_rate(
    opened: Open, vendor: AsyncQdrantClient, prefix: str
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(seconds)

    store = opened(sleep=sleep)
    await store.start()
    await Ledger(store).create()
    a_minute = models.StrictModeConfig(enabled=True, write_rate_limit=60)
    await vendor.update_collection(prefix + COLLECTION, strict_mode_config=a_minute)

    await store.upsert(COLLECTION, [Point(id=str(UUID(int=n)), payload={"rev": n}) for n in range(61)])

    assert await store.count(COLLECTION) == 61
    assert waits
    await store.drop_collection(COLLECTION)
    await store.close()


async def strict_parts(store: QdrantStore, vendor: AsyncQdrantClient, prefix: str) -> tuple[Index, Ledger]:
    index, ledger = Index(store, GENERATION), Ledger(store)
    await asyncio.gather(index.create(), ledger.create())
    for name in await store.collections():
        await vendor.update_collection(prefix + name, strict_mode_config=STRICT)
    return index, ledger


def a_chunk(number: int, *, version: int) -> Point:
    metadata = {
        "documentId": DOCUMENT,
        "tenant": "t",
        "source": "s",
        "tags": ["red"],
        "version": version,
        "chunkOrder": number % 30,
        "chunkHash": f"hash {number}",
        "embeddedHash": f"hash {number}",
        "vectorHash": vector_hash(VECTOR),
    }
    payload = {"text": f"text {number}", "metadata": metadata}
    return Point(id=str(UUID(int=1000 + number)), payload=payload, dense=VECTOR, sparse=Sparse([7], [1.0]))
