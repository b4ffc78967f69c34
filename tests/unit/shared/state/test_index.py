"""The index: which generation a process works on, and which points a worker deletes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from shared.embedder import Model
from shared.ids import point_id
from shared.state.generations import first_registry, registry_of, serving
from shared.state.index import Generation, Index
from shared.store import Point
from shared.store.edge import EdgeStore

MODEL = Model(name="m", digest="d", dimension=2, max_tokens=100)
FIRST = Generation(chunker="c1", chunk_size=800, chunk_overlap=0, model=MODEL, bm25="b")


# As releases have made them. An id that changes is another index: what was built under the old one answers no more.
KNOWN: dict[str, dict[str, Any]] = {
    "3d01a313999a": {},
    "89eb06038c9b": {"chunk_unit": "tokens", "chunk_size": 200, "chunk_overlap": 20},
    "e1bb059de10f": {"vectors": "half"},
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

    assert await serving(store, first_registry(FIRST, "minilm:")) == FIRST
    assert await serving(store, first_registry(msgspec.structs.replace(FIRST, chunk_size=400, bm25="c"))) == FIRST

    registry = await registry_of(store)
    assert registry is not None
    assert (registry.serving, registry.current.embedder, registry.others) == (FIRST.id, "minilm:", ())


async def test_two_that_begin_at_the_same_moment_agree(store: EdgeStore) -> None:
    assert await asyncio.gather(*(serving(store, first_registry(FIRST)) for _ in range(4))) == [FIRST] * 4


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
