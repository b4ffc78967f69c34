"""What every `Store` keeps to: the embedded engine, a Qdrant server, the client's local mode, which stands in
for a server where there is none (its gaps are named, each with the reason), and the simulation's store in memory.
"""

import math
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pytest
import pytest_asyncio
from qdrant_client import AsyncQdrantClient

from shared.embedder import unit
from shared.embedder.half_precision import half_precision
from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.store import (
    EVERYTHING,
    Condition,
    Filter,
    Ids,
    Leg,
    Match,
    Order,
    Period,
    Point,
    Prefix,
    Present,
    Range,
    Sparse,
    Store,
    Vector,
)
from shared.store.edge import EdgeStore
from shared.store.qdrant.address import QdrantAddress
from shared.store.qdrant.store import QdrantStore
from tests.fakes.store import MemoryStore
from tests.servers.local_qdrant import local_qdrant

if TYPE_CHECKING:
    from tests.servers.qdrant import QdrantServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 8
INDEXES: dict[str, Any] = {
    "metadata.tenant": "tenant",
    "metadata.documentId": "keyword",
    "metadata.tags": "keyword",
    "metadata.version": "integer",
    "accepted.version": "integer",
    "version": "integer",
}

LOCAL_GAPS = {
    "test_a_missing_collection_is_unavailable_by_name": "a bare ValueError where a server says 404",
    "test_unit_vectors_come_back_to_the_bit": "it makes every vector unit again, which moves the last bit",
    "test_vectors_in_half_precision_come_back_to_the_bit": "likewise",
}


SERVER = pytest.param("server", marks=pytest.mark.server)


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["edge", "memory", "local", "local over REST", SERVER]
)
async def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    """One store for all tests: each test begins with empty `chunks` and `heads`."""
    made: Store
    stack = ExitStack()
    if request.param == "edge":
        made = EdgeStore(tmp_path_factory.mktemp("store"))
    elif request.param == "memory":
        made = MemoryStore()
    elif request.param == "local":
        made = QdrantStore(QdrantAddress(url="local"), prefix="t.", client=AsyncQdrantClient(":memory:"))
    elif request.param == "local over REST":
        made = QdrantStore(QdrantAddress(url=stack.enter_context(local_qdrant())), prefix="t.")
    else:
        server: QdrantServer = request.getfixturevalue("qdrant_server")
        made = QdrantStore(server.address, server.api_key, prefix=f"test-{uuid4().hex[:8]}.")
    await made.start()
    yield made
    for name in await made.collections():
        await made.drop_collection(name)
    await made.close()
    stack.close()


@pytest.fixture(autouse=True)
def _local_gaps(request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params.get("store") == "local":
        reason = LOCAL_GAPS.get(request.node.originalname)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=f"local mode: {reason}", strict=True))


EVERY = Filter(must_not=(Ids(()),))  # matches what the empty filter does, and may be deleted by


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made_once(store: Store) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
        await store.create_collection("chunks", size=SIZE, sparse=True, indexes=INDEXES)
        await store.create_collection("heads", size=None, sparse=False, indexes=INDEXES)
    return "chunks", "heads"


@pytest_asyncio.fixture(loop_scope="module")
async def chunks(store: Store, made_once: tuple[str, str]) -> str:
    await store.delete(made_once[0], EVERY)
    return made_once[0]


@pytest_asyncio.fixture(loop_scope="module")
async def heads(store: Store, made_once: tuple[str, str]) -> str:
    await store.delete(made_once[1], EVERY)
    return made_once[1]


def an_id(number: int) -> str:
    return str(UUID(int=number))


def a_vector(*leading: float, size: int = SIZE) -> Vector:
    """Return a unit vector that begins with these numbers before it is made unit."""
    vector = np.zeros(size, np.float32)
    vector[: len(leading)] = leading
    return vector / np.linalg.norm(vector)


def a_chunk(number: int, *, document: int = 0, version: int = 1, cosine: float = 1.0, **metadata: Any) -> Point:
    """Return a point whose cosine with `QUESTION` is given."""
    return Point(
        id=an_id(number),
        payload={"text": f"text {number}", "metadata": {"documentId": an_id(document), "version": version, **metadata}},
        dense=a_vector(cosine, math.sqrt(max(0.0, 1 - cosine**2))),
        sparse=Sparse([7, 1000 + number], [cosine, 1.0]),
    )


QUESTION = Leg(dense=a_vector(1.0))
WORD = Leg(sparse=Sparse([7], [1.0]))


def a_head(document: int, version: int, *, deleted: bool = False) -> Point:
    return Point(id=an_id(document), payload={"version": version, "deleted": deleted})


async def payloads(store: Store, name: str, *numbers: int) -> list[Any]:
    found = {point.id: point.payload for point in await store.retrieve(name, [an_id(number) for number in numbers])}
    return [found.get(an_id(number)) for number in numbers]


async def matching(store: Store, name: str, where: Filter) -> list[int]:
    page = await store.scroll(name, where, limit=1000)
    numbers = [UUID(point.id).int for point in page.points]
    assert await store.count(name, where) == len(numbers)
    return numbers


def all_of(*conditions: Condition) -> Filter:
    return Filter(must=conditions)


# Collections


@pytest.mark.feature(126)
async def test_creating_again_keeps_everything(store: Store) -> None:
    await store.create_collection("kept", size=SIZE, sparse=True, indexes={})
    await store.upsert("kept", [a_chunk(1)])

    await store.create_collection("kept", size=SIZE, sparse=True, indexes={})

    assert await store.count("kept") == 1


async def test_another_vector_size_is_refused_by_name(store: Store, chunks: str) -> None:
    with pytest.raises(ConfigurationError, match=f"SLUICE_STORE.*{chunks}.* {SIZE}.* 9"):
        await store.create_collection(chunks, size=9, sparse=True, indexes={})


async def test_a_dropped_collection_is_gone_and_can_be_made_anew(store: Store) -> None:
    await store.create_collection("passing", size=SIZE, sparse=True, indexes={})
    await store.upsert("passing", [a_chunk(1)])

    await store.drop_collection("passing")
    await store.drop_collection("passing")
    without = await store.collections()
    await store.create_collection("passing", size=SIZE + 1, sparse=False, indexes={})

    assert "passing" not in without
    assert "passing" in await store.collections()
    assert await store.count("passing") == 0


async def test_collections_are_listed_in_order(store: Store, chunks: str, heads: str) -> None:
    names = await store.collections()

    assert {chunks, heads} <= set(names)
    assert names == sorted(names)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 101])
async def test_names_that_could_lead_elsewhere_are_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="collection name"):
        await store.create_collection(name, size=None, sparse=False, indexes={})
    with pytest.raises(ValueError, match="collection name"):
        await store.drop_collection(name)


async def test_a_missing_collection_is_unavailable_by_name(store: Store) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.count("nowhere"),
        lambda: store.upsert("nowhere", [a_head(1, 1)]),
        lambda: store.retrieve("nowhere", [an_id(1)]),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="nowhere") as caught:
            await call()
        assert caught.value.code == "no_collection"


# Points


@pytest.mark.feature(3)
async def test_unit_vectors_come_back_to_the_bit(store: Store) -> None:
    name, generator = "passages", np.random.default_rng(7)
    rows = generator.normal(size=(300, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    await store.create_collection(name, size=384, sparse=False, indexes={})

    await store.upsert(name, [Point(id=an_id(n), payload={}, dense=row) for n, row in enumerate(rows)])

    found = {
        point.id: point.dense for point in await store.retrieve(name, [an_id(n) for n in range(300)], vectors=True)
    }
    page = await store.scroll(name, vectors=True, limit=300)
    for kept in (found, {point.id: point.dense for point in page.points}):
        vectors = [kept[an_id(n)] for n in range(300)]
        assert all(vector is not None and vector.dtype == np.float32 for vector in vectors)
        same = b"".join(vector.tobytes() for vector in vectors if vector is not None) == rows.tobytes()
        assert same  # apart: a comparison of 460 kB takes pytest a minute to explain


async def test_vectors_in_half_precision_come_back_to_the_bit(store: Store) -> None:
    name, generator = "halves", np.random.default_rng(8)
    rows = half_precision([unit(generator.normal(size=384)) for _ in range(300)])
    await store.create_collection(name, size=384, sparse=False, indexes={}, half=True)

    await store.upsert(name, [Point(id=an_id(n), payload={}, dense=row) for n, row in enumerate(rows)])
    await store.create_collection(name, size=384, sparse=False, indexes={}, half=True)

    found = {point.id: point.dense for point in (await store.scroll(name, vectors=True, limit=300)).points}
    vectors = [found[an_id(n)] for n in range(300)]
    same = b"".join(vector.tobytes() for vector in vectors if vector is not None) == b"".join(
        row.tobytes() for row in rows
    )
    assert same  # apart, as above


async def test_sparse_vectors_come_back(store: Store, chunks: str) -> None:
    vector = Sparse([3, 2**31 - 1, 900], [0.5, 1.678688645362854, 2.0])
    await store.upsert(chunks, [Point(id=an_id(1), payload={}, sparse=vector)])

    (found,) = await store.retrieve(chunks, [an_id(1)], vectors=True)

    assert found.dense is None
    assert found.sparse is not None
    kept = dict(zip(found.sparse.indices, found.sparse.values, strict=True))
    assert kept == pytest.approx(dict(zip(vector.indices, vector.values, strict=True)), rel=1e-7)


async def test_payloads_come_back_as_they_were(store: Store, heads: str) -> None:
    payload = {
        "text": 'naïve 東京 👩‍👩‍👧 \u0000 \u202e "quoted" \\',
        "größe": {"mit leer": [1, [2, {"x": None}]], "a.b": 1, "": 0},
        "numbers": [0, -1, 2**53, 2**63 - 1, -(2**63), 1.5, 1e-300, 1e300],
        "flags": [True, False, None],
        "empty": {"list": [], "object": {}, "text": ""},
    }
    await store.upsert(heads, [Point(id=an_id(1), payload=payload)])

    assert await payloads(store, heads, 1) == [payload]
    (found,) = await store.retrieve(heads, [an_id(1)], vectors=True)
    assert (found.dense, found.sparse) == (None, None)


async def test_an_upsert_replaces_the_whole_point(store: Store, heads: str) -> None:
    await store.upsert(heads, [Point(id=an_id(1), payload={"a": 1, "b": 1})])

    await store.upsert(heads, [Point(id=an_id(1), payload={"a": 2})])

    assert await payloads(store, heads, 1) == [{"a": 2}]


async def test_the_last_of_two_points_with_one_id_wins(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 1), a_head(1, 2)])

    assert [p["version"] for p in await payloads(store, heads, 1)] == [2]


@pytest.mark.feature(73, 127)
async def test_a_large_batch_is_written_whole(store: Store, chunks: str) -> None:
    await store.upsert(chunks, [a_chunk(number) for number in range(300)])

    assert await store.count(chunks) == 300
    assert len(await store.retrieve(chunks, [an_id(number) for number in range(600)])) == 300


async def test_no_points_is_no_write(store: Store, chunks: str) -> None:
    await store.upsert(chunks, [])
    assert await store.put_if(chunks, [], None) == []

    assert await store.retrieve(chunks, []) == []
    assert await store.count(chunks) == 0


async def test_a_conditional_upsert_is_a_fence(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 5), a_head(2, 3)])

    older = all_of(Range("version", lt=4))
    await store.upsert(heads, [a_head(1, 4), a_head(2, 4), a_head(3, 4)], only_if=older)

    assert [p["version"] for p in await payloads(store, heads, 1, 2, 3)] == [5, 4, 4]


async def test_a_conditional_upsert_replaces_vectors_too_or_nothing(store: Store, chunks: str) -> None:
    await store.upsert(chunks, [a_chunk(1, version=1, cosine=0.5), a_chunk(2, version=9, cosine=0.5)])

    newer = [a_chunk(1, version=2, cosine=1.0), a_chunk(2, version=2, cosine=1.0)]
    await store.upsert(chunks, newer, only_if=all_of(Range("metadata.version", lt=2)))

    found = await store.retrieve(chunks, [an_id(1), an_id(2)], vectors=True)
    first = {point.id: None if point.dense is None else round(float(point.dense[0]), 6) for point in found}
    assert first == {an_id(1): 1.0, an_id(2): 0.5}


async def test_a_condition_that_names_the_stored_state_is_compare_and_set(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 7)])

    await store.upsert(heads, [a_head(1, 8)], only_if=all_of(Match("version", (6,))))
    refused = await payloads(store, heads, 1)
    await store.upsert(heads, [a_head(1, 8)], only_if=all_of(Match("version", (7,))))

    assert refused[0]["version"] == 7
    assert [p["version"] for p in await payloads(store, heads, 1)] == [8]


async def test_put_if_leaves_what_is_there_and_says_what_stands(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 1)])

    stored = await store.put_if(heads, [a_head(1, 2), a_head(2, 2)], None)

    assert {point.id: point.payload["version"] for point in stored} == {an_id(1): 1, an_id(2): 2}
    assert [p["version"] for p in await payloads(store, heads, 1, 2)] == [1, 2]


async def test_put_if_replaces_what_matches_and_says_what_stands(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 5), a_head(2, 3)])

    stored = await store.put_if(
        heads, [a_head(1, 4), a_head(2, 4), a_head(3, 4)], all_of(Range("version", lt=4)), fields=("version",)
    )

    assert {point.id: point.payload for point in stored} == {
        an_id(1): {"version": 5},
        an_id(2): {"version": 4},
        an_id(3): {"version": 4},
    }


async def test_set_payload_merges_the_top_level_where_the_filter_says(store: Store, heads: str) -> None:
    stored = {"accepted": {"version": 10, "hash": "a"}, "last": {"status": "accepted", "error": "old"}}
    await store.upsert(heads, [Point(id=an_id(n), payload={**stored, "n": n}) for n in (1, 2)])
    await store.upsert(heads, [Point(id=an_id(3), payload={"accepted": {"version": 11}})])

    where = all_of(Ids((an_id(1), an_id(3))), Range("accepted.version", lt=11))
    await store.set_payload(heads, {"last": {"status": "created"}}, where)

    assert await payloads(store, heads, 1, 2, 3) == [
        {**stored, "last": {"status": "created"}, "n": 1},
        {**stored, "n": 2},
        {"accepted": {"version": 11}},
    ]


async def test_set_payload_that_matches_nothing_writes_nothing(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 1)])

    await store.set_payload(heads, {"x": 1}, all_of(Ids((an_id(2),))))
    await store.set_payload(heads, {"x": 1}, all_of(Ids(())))

    assert await store.count(heads) == 1
    assert await payloads(store, heads, 1) == [a_head(1, 1).payload]


async def test_ids_that_cannot_be_are_not_there(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(1, 1)])

    assert [p.id for p in await store.retrieve(heads, [an_id(1), "7", "x", "", an_id(2), an_id(1)])] == [an_id(1)]
    assert await matching(store, heads, all_of(Ids(("x", an_id(1))))) == [1]
    assert await matching(store, heads, all_of(Ids(("x",)))) == []


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (Point(id="x", payload={}), "'x' must be a UUID"),
        (Point(id=an_id(1).replace("-", ""), payload={}), "must be a UUID"),
        (Point(id=an_id(1), payload={}, dense=a_vector(1, size=9)), f"point {an_id(1)}.* 9.*{SIZE}"),
        (Point(id=an_id(1), payload={}, dense=np.array([math.nan] * SIZE, np.float32)), f"{an_id(1)}.*NaN.* at 0"),
        (Point(id=an_id(1), payload={}, dense=np.array([1.0] * 7 + [math.inf], np.float32)), "NaN or infinity at 7"),
        (Point(id=an_id(1), payload={}, dense=np.ones((1, SIZE), np.float32)), "one row of float32"),
        (Point(id=an_id(1), payload={}, dense=np.ones(SIZE)), "one row of float32, not float64"),  # type: ignore[arg-type]
        (Point(id=an_id(1), payload={}, sparse=Sparse([1, 2], [1.0])), "2 indices and 1 values"),
        (Point(id=an_id(1), payload={}, sparse=Sparse([1, 1], [1.0, 2.0])), "repeats an index"),
        (Point(id=an_id(1), payload={}, sparse=Sparse([-1], [1.0])), "index outside"),
        (Point(id=an_id(1), payload={}, sparse=Sparse([2**32], [1.0])), "index outside"),
        (Point(id=an_id(1), payload={}, sparse=Sparse([1], [math.nan])), "NaN"),
        (Point(id=an_id(1), payload={"a": {"when": datetime.now(UTC)}}), f"{an_id(1)}: a.when is of type datetime"),
        (Point(id=an_id(1), payload={"raw": b"x"}), "raw is of type bytes"),
        (Point(id=an_id(1), payload={"a": [0, 2**63]}), r"a\.1 is 9223372036854775808"),
        (Point(id=an_id(1), payload={"a": math.nan}), "a is nan"),
        (Point(id=an_id(1), payload={"a": "\ud800"}), "a holds a lone surrogate"),
        (Point(id=an_id(1), payload={"\ud800": 1}), "no key"),
        (Point(id=an_id(1), payload={"a": {1: 2}}), r"a\.1 is no key"),
        (Point(id=an_id(1), payload={"a": {1, 2}}), "a is of type set"),
        (Point(id=an_id(1), payload={"a": np.float32(1)}), "a is of type float32"),
    ],
)
async def test_what_can_not_be_kept_is_refused_by_name(store: Store, chunks: str, point: Point, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await store.upsert(chunks, [a_chunk(5), point])
    with pytest.raises(ValueError, match=message):
        await store.put_if(chunks, [a_chunk(5), point], None)

    assert await store.count(chunks) == 0


async def test_set_payload_refuses_what_can_not_be_kept(store: Store, heads: str) -> None:
    with pytest.raises(ValueError, match=f"{heads}: a.b is of type bytes"):
        await store.set_payload(heads, {"a": {"b": b""}}, all_of(Ids((an_id(1),))))


# Filters, pages, orders, counts

LIBRARY: list[dict[str, Any]] = [
    {"metadata": {"tenant": "a", "tags": ["red", "blue"], "version": 1, "draft": True, "mit leer": "ja"}},
    {"metadata": {"tenant": "a", "tags": ["red"], "version": 2, "draft": False, "größe": "XL", "at": "2026-05-01"}},
    {"metadata": {"tenant": "a", "tags": [], "version": 3, "rank": 1, "at": "2026-05-01T10:00:00.000Z", "part": 1.5}},
    {"metadata": {"tenant": "b", "tags": ["red", "grün"], "version": 4, "rank": "1"}},
    {"metadata": {"tenant": "b", "tags": "blue"}},
    {},
]
TIME = 1_790_000_000_123  # ms


@pytest_asyncio.fixture(loop_scope="module")
async def library(store: Store, chunks: str) -> str:
    await store.upsert(chunks, [Point(id=an_id(n), payload=payload) for n, payload in enumerate(LIBRARY)])
    return chunks


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (EVERYTHING, [0, 1, 2, 3, 4, 5]),
        (all_of(Match("metadata.tenant", ("a",))), [0, 1, 2]),
        (all_of(Match("metadata.tags", ("red",))), [0, 1, 3]),
        (all_of(Match("metadata.tags", ("blue", "grün"))), [0, 3, 4]),
        (all_of(Match("metadata.tags", ())), []),
        (Filter(must_not=(Match("metadata.tags", ()),)), [0, 1, 2, 3, 4, 5]),
        (all_of(Match("metadata.tags", ("nothing",))), []),
        (all_of(Match("metadata.tags", ("red",)), Match("metadata.tags", ("blue",))), [0]),
        (Filter(must=(Match("metadata.tags", ("red",)),), must_not=(Match("metadata.tenant", ("b",)),)), [0, 1]),
        (Filter(must_not=(Match("metadata.tenant", ("a",)), Range("metadata.version", gte=4))), [4, 5]),
        (all_of(Match("metadata.version", (1, 3))), [0, 2]),
        (all_of(Match("metadata.draft", (True,))), [0]),
        (all_of(Match("metadata.draft", (True, False))), [0, 1]),
        (all_of(Match("metadata.rank", (1,))), [2]),
        (all_of(Match("metadata.rank", ("1",))), [3]),
        (all_of(Match("metadata.rank", (1, "1"))), [2, 3]),
        (all_of(Match("metadata.mit leer", ("ja",))), [0]),
        (all_of(Match("metadata.größe", ("XL",))), [1]),
        (all_of(Match("metadata.nowhere", ("x",))), []),
        (all_of(Range("metadata.version", gt=1, lte=3)), [1, 2]),
        (all_of(Range("metadata.version", gte=2, lt=4)), [1, 2]),
        (all_of(Range("metadata.nowhere", gte=0)), []),
        (all_of(Range("metadata.part", gt=1.25, lt=1.75)), [2]),
        (all_of(Period("metadata.at", gte="2026-05-01")), [1, 2]),
        (all_of(Period("metadata.at", gt="2026-05-01T00:00:00Z", lte="2026-05-01T12:00:00+02:00")), [2]),
        (all_of(Period("metadata.at", lt="2026-05-01")), []),
        (all_of(Period("metadata.tags", gte="2026-05-01")), []),
        (all_of(Prefix("metadata.tags", "r")), [0, 1, 3]),
        (all_of(Prefix("metadata.größe", "XL")), [1]),
        (all_of(Prefix("metadata.version", "1")), []),
        (all_of(Present("metadata.tags")), [0, 1, 3, 4]),
        (Filter(must_not=(Present("metadata.tenant"),)), [5]),
        (all_of(Ids((an_id(5), an_id(1), an_id(77)))), [1, 5]),
        (all_of(Ids(())), []),
        (Filter(must_not=(Ids((an_id(0), an_id(1))),)), [2, 3, 4, 5]),
        (Filter(must_not=(Ids(()),)), [0, 1, 2, 3, 4, 5]),
        (all_of(Ids((an_id(0), an_id(3))), Match("metadata.tenant", ("b",))), [3]),
    ],
)
async def test_filters_match_what_they_say(store: Store, library: str, where: Filter, numbers: list[int]) -> None:
    assert await matching(store, library, where) == numbers


@pytest.mark.parametrize("field", ["", "a..b", ".a", 'a"b'])
async def test_a_field_that_is_no_path_is_refused(store: Store, library: str, field: str) -> None:
    with pytest.raises(ValueError, match="field"):
        await store.count(library, all_of(Match(field, ("x",))))


async def test_times_compare_to_the_millisecond(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(n, TIME + n) for n in range(3)])

    assert await matching(store, heads, all_of(Range("version", lt=TIME + 1))) == [0]
    assert await matching(store, heads, all_of(Range("version", gt=TIME + 1))) == [2]
    assert await matching(store, heads, all_of(Match("version", (TIME + 1,)))) == [1]


async def test_pages_follow_each_other_in_id_order(store: Store, heads: str) -> None:
    generator = np.random.default_rng(3)
    ids = [str(UUID(bytes=generator.bytes(16))) for _ in range(25)]
    await store.upsert(heads, [Point(id=identifier, payload={"version": n % 2}) for n, identifier in enumerate(ids)])
    odd = all_of(Match("version", (1,)))

    for where, expected in ((EVERYTHING, sorted(ids)), (odd, sorted(ids[1::2]))):
        seen: list[str] = []
        after = None
        while True:
            page = await store.scroll(heads, where, limit=5, after=after)
            assert len(page.points) <= 5
            seen += [point.id for point in page.points]
            after = page.after
            if after is None:
                break
        assert seen == expected


async def test_a_page_can_hold_some_fields_only(store: Store, library: str) -> None:
    page = await store.scroll(library, limit=2, fields=["metadata.tags", "metadata.mit leer"])
    bare = await store.scroll(library, limit=1, fields=[])

    assert [point.payload for point in page.points] == [
        {"metadata": {"tags": ["red", "blue"], "mit leer": "ja"}},
        {"metadata": {"tags": ["red"]}},
    ]
    assert [point.payload for point in bare.points] == [{}]


async def test_points_can_be_had_with_some_fields_only(store: Store, library: str) -> None:
    [page] = (await store.scroll(library, limit=1)).points

    [some] = await store.retrieve(library, [page.id], fields=["metadata.tags"])
    [bare] = await store.retrieve(library, [page.id], fields=[])

    assert (some.payload, bare.payload) == ({"metadata": {"tags": page.payload["metadata"]["tags"]}}, {})
    assert bare.id == page.id


async def test_pages_must_have_a_size_and_a_start_that_was_given(store: Store, library: str) -> None:
    with pytest.raises(ValueError, match="limit 0"):
        await store.scroll(library, limit=0)
    with pytest.raises(ValueError, match="after='garbage'"):
        await store.scroll(library, after="garbage")


async def test_points_come_in_the_order_of_a_field(store: Store, heads: str) -> None:
    await store.upsert(heads, [a_head(n, TIME + (n * 7) % 10) for n in range(10)])
    await store.upsert(heads, [Point(id=an_id(50), payload={"deleted": False})])

    async def versions(**options: Any) -> list[int]:
        where, limit = options.pop("where", EVERYTHING), options.pop("limit", 256)
        page = await store.scroll(heads, where, limit=limit, order=Order("version", **options))
        assert page.after is None
        return [point.payload["version"] - TIME for point in page.points]

    assert await versions() == list(range(10))
    assert await versions(descending=True, limit=3) == [9, 8, 7]
    assert await versions(start=TIME + 4, limit=2) == [4, 5]
    assert await versions(start=TIME + 4, descending=True) == [4, 3, 2, 1, 0]
    assert await versions(where=all_of(Range("version", gte=TIME + 8))) == [8, 9]


async def test_facets_count_the_values_of_matching_points(store: Store, library: str) -> None:
    assert await store.facet(library, "metadata.tags") == {"red": 3, "blue": 2, "grün": 1}
    assert await store.facet(library, "metadata.tags", all_of(Match("metadata.tenant", ("b",)))) == {
        "red": 1,
        "grün": 1,
        "blue": 1,
    }
    assert await store.facet(library, "metadata.tags", limit=1) == {"red": 3}
    assert await store.facet(library, "metadata.tags", all_of(Ids(()))) == {}


async def test_deleting_takes_what_matches_and_no_more(store: Store, library: str) -> None:
    await store.delete(library, all_of(Match("metadata.tenant", ("a",)), Range("metadata.version", lt=3)))
    await store.delete(library, all_of(Ids(())))
    await store.delete(library, all_of(Match("metadata.tags", ())))

    assert await matching(store, library, EVERYTHING) == [2, 3, 4, 5]


async def test_deleting_everything_by_mistake_is_refused(store: Store, library: str) -> None:
    with pytest.raises(ValueError, match="drop the collection"):
        await store.delete(library, EVERYTHING)

    assert await store.count(library) == len(LIBRARY)


# Search


async def found(
    store: Store,
    chunks: str,
    heads: str,
    *,
    legs: Sequence[Leg] = (QUESTION,),
    where: Filter = EVERYTHING,
    limit: int = 5,
) -> list[list[int]]:
    rankings = await store.search(chunks, legs, where, limit=limit, heads=heads)
    return [[UUID(hit.id).int for hit in ranking] for ranking in rankings]


@pytest.mark.feature(120, 128)
async def test_a_search_ranks_each_leg_by_its_own_score(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    await store.upsert(chunks, [a_chunk(n, cosine=1 - n / 10) for n in range(8)])

    dense, sparse = await store.search(chunks, [QUESTION, WORD], EVERYTHING, limit=3, heads=heads)

    assert [UUID(hit.id).int for hit in dense] == [0, 1, 2]
    assert [hit.score for hit in dense] == pytest.approx([1.0, 0.9, 0.8], abs=1e-6)
    assert [hit.payload for hit in dense] == [a_chunk(n).payload for n in range(3)]
    assert [UUID(hit.id).int for hit in sparse] == [0, 1, 2]
    assert sparse[0].score > sparse[1].score > sparse[2].score > 0


async def test_equal_scores_are_in_the_order_of_ids_however_the_points_came(
    store: Store, chunks: str, heads: str
) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    for n in (5, 0, 7, 3, 1, 6, 2, 4):  # as two restores of one backup may write them
        await store.upsert(chunks, [msgspec.structs.replace(a_chunk(n, cosine=0.5), sparse=Sparse([7], [1.0]))])

    assert await found(store, chunks, heads, legs=[QUESTION, WORD]) == [[0, 1, 2, 3, 4]] * 2


async def test_every_hit_has_its_cosine_with_the_dense_leg(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    found = [a_chunk(n, cosine=n / 10) for n in range(8)]
    await store.upsert(
        chunks, [msgspec.structs.replace(each, sparse=Sparse([7], [10.0 - n])) for n, each in enumerate(found)]
    )

    sparse, dense = await store.search(chunks, [WORD, QUESTION], EVERYTHING, limit=2, heads=heads)
    [alone] = await store.search(chunks, [WORD], EVERYTHING, limit=2, heads=heads)

    assert {UUID(hit.id).int: hit.cosine for hit in dense} == {
        7: pytest.approx(0.7, abs=1e-6),
        6: pytest.approx(0.6, abs=1e-6),
    }
    assert {UUID(hit.id).int: hit.cosine for hit in sparse} == {
        0: pytest.approx(0.0, abs=1e-6),
        1: pytest.approx(0.1, abs=1e-6),
    }
    assert [hit.cosine for hit in alone] == [None, None]


async def test_a_rare_word_weighs_more_than_a_common_one(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    await store.upsert(chunks, [a_chunk(n) for n in range(20)])

    both = Leg(sparse=Sparse([7, 1013], [1.0, 1.0]))

    assert (await found(store, chunks, heads, legs=[both], limit=1)) == [[13]]


async def test_a_search_without_legs_or_words_finds_nothing(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    await store.upsert(chunks, [a_chunk(1)])

    assert await found(store, chunks, heads, legs=[]) == []
    assert await found(store, chunks, heads, legs=[Leg(sparse=Sparse([], [])), QUESTION]) == [[], [1]]
    assert await found(store, chunks, heads, legs=[Leg(sparse=Sparse([4], [1.0]))]) == [[]]


@pytest.mark.feature(123)
async def test_a_search_stays_within_its_filter(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 1)])
    tenants = ["a", "b"]
    await store.upsert(chunks, [a_chunk(n, tenant=tenants[n % 2], cosine=1 - n / 20) for n in range(10)])

    where = all_of(Match("metadata.tenant", ("b",)))

    assert await found(store, chunks, heads, legs=[QUESTION, WORD], where=where, limit=3) == [[1, 3, 5], [1, 3, 5]]
    assert await found(store, chunks, heads, where=all_of(Match("metadata.tenant", ()))) == [[]]


@pytest.mark.feature(125)
async def test_stale_points_in_front_do_not_take_places(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(heads, [a_head(0, 2), a_head(1, 1)])
    stale = [a_chunk(n, document=0, version=1, cosine=1.0) for n in range(150)]
    current = [a_chunk(500 + n, document=n % 2, version=2 - n % 2, cosine=0.9 - n / 100) for n in range(6)]
    await store.upsert(chunks, stale + current)

    assert await found(store, chunks, heads, legs=[QUESTION, WORD], limit=5) == [[500, 501, 502, 503, 504]] * 2
    assert await found(store, chunks, heads, limit=50) == [[500, 501, 502, 503, 504, 505]]


async def test_points_of_no_head_a_later_one_or_a_deleted_one_do_not_count(
    store: Store, chunks: str, heads: str
) -> None:
    await store.upsert(heads, [a_head(1, 3), a_head(2, 3, deleted=True)])
    await store.upsert(
        chunks,
        [
            a_chunk(1, document=1, version=3),
            a_chunk(2, document=1, version=2),
            a_chunk(3, document=1, version=4),
            a_chunk(4, document=2, version=3),
            a_chunk(5, document=9, version=3),
            Point(id=an_id(6), payload={"metadata": "not an object"}, dense=a_vector(1)),
            Point(id=an_id(7), payload={}, dense=a_vector(1)),
        ],
    )

    assert await found(store, chunks, heads) == [[1]]


async def test_a_search_sees_every_way_a_head_can_move(store: Store, chunks: str, heads: str) -> None:
    await store.upsert(chunks, [a_chunk(version, document=1, version=version) for version in range(1, 6)])
    this = all_of(Ids((an_id(1),)))
    seen = []

    async def look() -> None:
        seen.append((await found(store, chunks, heads))[0])

    await look()
    await store.upsert(heads, [a_head(1, 1)])
    await look()
    await store.upsert(heads, [a_head(1, 2)], only_if=all_of(Range("version", lt=2)))
    await look()
    await store.upsert(heads, [a_head(1, 1)], only_if=all_of(Range("version", lt=1)))
    await look()
    await store.put_if(heads, [a_head(1, 5)], None)
    await look()
    await store.set_payload(heads, {"version": 3}, this)
    await look()
    await store.set_payload(heads, {"deleted": True}, this)
    await look()
    await store.upsert(heads, [a_head(1, 4)])
    await look()
    await store.delete(heads, this)
    await look()

    assert seen == [[], [1], [2], [2], [2], [3], [], [4], []]


@pytest.mark.parametrize(
    ("leg", "message"),
    [
        (Leg(), "leg 0 must have either"),
        (Leg(dense=QUESTION.dense, sparse=WORD.sparse), "leg 0 must have either"),
        (Leg(dense=a_vector(1, size=9)), f" 9.*{SIZE}"),
        (Leg(dense=np.array([math.nan] * SIZE, np.float32)), "NaN"),
    ],
)
async def test_a_malformed_leg_is_refused(store: Store, chunks: str, heads: str, leg: Leg, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await found(store, chunks, heads, legs=[leg])


async def test_a_flush_returns(store: Store, chunks: str) -> None:
    await store.upsert(chunks, [a_chunk(1)])

    await store.flush()

    assert await store.count(chunks) == 1
