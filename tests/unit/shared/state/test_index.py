"""The index: which generation a process works on, and which points a worker deletes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest

from shared.embedder import Model
from shared.ids import point_id, text_hash
from shared.state.generations import first_registry, registry_of, serving
from shared.state.index import Generation, Head, Index, vector_hash
from shared.store import Filter, Payload, Point
from shared.store.edge import EdgeStore
from tests.fakes.store import MemoryStore

MODEL = Model(name="m", digest="d", dimension=2, max_tokens=100)
FIRST = Generation(chunker="c1", chunk_size=800, chunk_overlap=0, model=MODEL, bm25="b")


# As earlier commits made them. An id that changes is another index: what was built under the old one can't be read.
KNOWN: dict[str, dict[str, Any]] = {
    "015c6f3f0901": {},
    "fb54551abcb6": {"chunk_unit": "tokens", "chunk_size": 200, "chunk_overlap": 20},
    "4cce76e5c42a": {"vectors": "half"},
}
RELEASED = Generation(
    chunker="soft-2",
    chunk_size=800,
    chunk_overlap=0,
    model=Model(name="all-MiniLM-L6-v2", digest="0" * 64, dimension=384, max_tokens=254),
    bm25="b",
)


class LaterModel(Model, frozen=True):
    """One of a release to come."""

    pooling: str = "mean"


class LaterGeneration(Generation, frozen=True):
    """One of a release to come."""

    languages: tuple[str, ...] = ()
    stemmer: str = "none"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    made = EdgeStore(tmp_path / "store")
    await made.start()
    yield made
    await made.close()


@pytest.mark.parametrize("known", KNOWN)
def test_a_generation_has_the_id_that_it_was_built_under(known: str) -> None:
    assert msgspec.structs.replace(RELEASED, **KNOWN[known]).id == known


def test_a_field_that_comes_later_leaves_ids_as_they_are_until_it_says_something() -> None:
    of = msgspec.structs.asdict(RELEASED) | {"model": LaterModel(**msgspec.structs.asdict(RELEASED.model))}
    later = LaterGeneration(**of)

    assert later.id == RELEASED.id
    assert len({RELEASED.id, msgspec.structs.replace(later, stemmer="porter").id}) == 2
    other = msgspec.structs.replace(later.model, pooling="cls")
    assert msgspec.structs.replace(later, model=other).id != RELEASED.id


async def test_an_index_goes_on_with_what_it_was_built_with(store: EdgeStore) -> None:
    assert await registry_of(store) is None

    assert (await serving(store, first_registry(FIRST, "minilm:"))).current.generation == FIRST
    another = msgspec.structs.replace(FIRST, chunk_size=400, bm25="c")
    assert (await serving(store, first_registry(another))).current.generation == FIRST

    registry = await registry_of(store)
    assert registry is not None
    assert (registry.serving, registry.current.embedder, registry.others) == (FIRST.id, "minilm:", ())


async def test_two_that_begin_at_the_same_moment_agree(store: EdgeStore) -> None:
    assert (
        await asyncio.gather(*(serving(store, first_registry(FIRST)) for _ in range(4))) == [first_registry(FIRST)] * 4
    )


def test_the_unit_changes_no_fingerprint_that_is_there() -> None:
    assert msgspec.json.encode(FIRST) == msgspec.json.encode(msgspec.structs.replace(FIRST, chunk_unit="characters"))
    assert b"chunkUnit" not in msgspec.json.encode(FIRST)
    assert msgspec.structs.replace(FIRST, chunk_unit="tokens").id != FIRST.id


async def test_a_worker_that_is_late_deletes_older_points_and_leaves_newer_ones(store: EdgeStore) -> None:
    index = Index(store, FIRST)
    await index.create()
    for version in (1, 2, 3):
        metadata = {"documentId": "d", "version": version, "chunkOrder": 0}
        point = Point(
            id=point_id("d", version, 0), payload={"text": "t", "metadata": metadata}, dense=np.ones(2, np.float32)
        )
        await index.put([point])

    await index.delete_below("d", 2)

    assert [await index.version_points("d", version) for version in (1, 2, 3)] == [0, 1, 1]


TENANT, DOCUMENTS = "t", [str(UUID(int=number)) for number in range(1, 6)]


class Counting(MemoryStore):
    """A store that notes its calls with points or ids, and refuses points of one text."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    async def upsert(self, name: str, points: Sequence[Point], *, only_if: Filter | None = None) -> None:
        self.calls.append(("upsert", len(points)))
        if any(point.payload.get("text") == "refused" for point in points):
            raise ValueError("a point can't be stored")
        await super().upsert(name, points, only_if=only_if)

    async def retrieve(self, name: str, ids: Sequence[str], **options: Any) -> list[Point]:
        self.calls.append(("retrieve", len(ids)))
        return await super().retrieve(name, ids, **options)


async def counted() -> tuple[Counting, Index]:
    store = Counting()
    index = Index(store, FIRST)
    await index.create()
    return store, index


def a_head(document: str, version: int) -> Head:
    return Head(document_id=document, version=version, tenant=TENANT, chunk_count=1)


def a_point(document: str, text: str, tenant: str = TENANT) -> Point:
    vector = np.array([0.6, 0.8], dtype=np.float32)
    metadata = {"tenant": tenant, "documentId": document, "version": 1, "chunkOrder": 0}
    hashes = {"chunkHash": text_hash(text), "embeddedHash": text_hash(text), "vectorHash": vector_hash(vector)}
    return Point(id=point_id(document, 1, 0), payload={"text": text, "metadata": {**metadata, **hashes}}, dense=vector)


async def test_first_heads_of_one_moment_share_a_write_and_a_read() -> None:
    store, index = await counted()

    standing = await asyncio.gather(*(index.switch(a_head(name, 7), first=True) for name in DOCUMENTS))

    assert [head.version for head in standing] == [7] * 5
    assert store.calls == [("upsert", 5), ("retrieve", 5)]


async def test_a_head_that_is_not_the_first_after_all_is_switched_to_as_any_other() -> None:
    _, index = await counted()
    older, newer, withdrawn, marked, free = DOCUMENTS
    await index.switch(a_head(older, 3))
    await index.switch(a_head(newer, 9))
    await index.withdraw(a_head(withdrawn, 7))
    await index.withdraw(a_head(marked, 8))

    names = (older, newer, withdrawn, marked, free, free)
    standing = await asyncio.gather(*(index.switch(a_head(name, 7), first=True) for name in names))

    assert [head.version for head in standing] == [7, 9, 0, 7, 7, 7]
    head = await index.head(marked)
    assert head is not None
    assert head.withdrawn(8) == 0


async def test_points_of_one_moment_share_a_write_and_a_refused_one_fails_alone() -> None:
    store, index = await counted()
    texts = ("one", "refused", "two")

    results = await asyncio.gather(
        *(index.put([a_point(name, text)]) for name, text in zip(DOCUMENTS, texts, strict=False)),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [type(None), ValueError, type(None)]
    assert store.calls == [("upsert", 3), ("upsert", 1), ("upsert", 1), ("upsert", 1)]
    assert await index.present([point.id for point in map(a_point, DOCUMENTS, texts)]) == {
        point_id(DOCUMENTS[0], 1, 0): text_hash("one"),
        point_id(DOCUMENTS[2], 1, 0): text_hash("two"),
    }


async def test_a_shared_write_keeps_what_a_later_attempt_has_written() -> None:
    _, index = await counted()
    first, second, *_ = DOCUMENTS
    await index.put([a_point(first, "redriven")], attempt=1)

    await asyncio.gather(index.put([a_point(first, "late")]), index.put([a_point(second, "two")]))

    ids = [point_id(name, 1, 0) for name in (first, second)]
    assert await index.present(ids) == {ids[0]: text_hash("redriven"), ids[1]: text_hash("two")}
    assert list(await index.present(ids, attempt=1)) == [ids[0]]


async def test_of_two_writes_of_one_point_the_later_one_stays() -> None:
    store, index = await counted()
    name, other, *_ = DOCUMENTS

    await asyncio.gather(*(index.put([a_point(of, text)]) for of, text in ((name, "one"), (other, "x"), (name, "two"))))

    assert store.calls == [("upsert", 2)]
    assert await index.present([point_id(name, 1, 0)]) == {point_id(name, 1, 0): text_hash("two")}


async def test_a_shared_look_up_gives_each_tenant_its_own_vectors() -> None:
    _, index = await counted()
    await index.put([a_point(DOCUMENTS[0], "one"), a_point(DOCUMENTS[1], "two", "other")])
    hashes = [text_hash("one"), text_hash("two"), text_hash("three")]

    mine, theirs, nobodys = await asyncio.gather(*(index.known(name, hashes) for name in (TENANT, "other", "third")))

    assert {hash_: known.text for hash_, known in mine.items()} == {hashes[0]: "one"}
    assert {hash_: known.text for hash_, known in theirs.items()} == {hashes[1]: "two"}
    assert nobodys == {}


class _Repaired(MemoryStore):
    """A store in which a repair drops each head just before its fields are changed."""

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        await self.delete(name, Filter(must=where.must[:1]))


async def test_a_withdrawal_is_kept_where_the_head_is_dropped_meanwhile() -> None:
    index = Index(_Repaired(), FIRST)
    await index.create()
    name = DOCUMENTS[0]
    await index.switch(a_head(name, 3))

    assert (await index.withdraw(a_head(name, 7))).withdrawn(7) == 0
    standing = await index.switch(a_head(name, 7))
    assert standing.version == 0
