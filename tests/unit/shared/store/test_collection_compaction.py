"""Collections rewritten by themselves: when, beside what, and that nothing is lost meanwhile."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.store import EVERYTHING, CollectionSize, Filter, Ids, Leg, Match, Point, Sparse, collection_compaction, wire
from shared.store.collection_compaction import PATIENCE_S, Rewriter, is_due, is_index_due
from shared.store.edge_engine import Engine, NoCollection, Unserved
from shared.store.edge_server import BROKEN, _Server
from shared.store.index_builder import IndexBuilder, VectorFormat
from tests.contract.logs import HANG_S, until
from tests.fakes.clock import SetClock
from tests.selection import CI_ONLY

SMALL = 100
INDEXED_FROM = 400  # vectors
SIZE = 16


class Pauses(SetClock):
    """A clock whose pauses are counted; something may happen in each."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.meanwhile: Callable[[], None] = lambda: None
        self.pauses = 0

    async def pause(self, _seconds: float) -> None:
        self.pauses += 1
        self.meanwhile()
        await asyncio.sleep(0)  # others get their turn


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = opened(tmp_path)
    engine.answer(wire.Request("create_collection", ("c", None, True, {"doc": "keyword"})))
    yield engine
    engine.close()


@pytest.fixture
def clock() -> Pauses:
    return Pauses()


def opened(folder: Path) -> Engine:
    engine = Engine(folder)
    engine.load(lambda _name, _seconds: None)
    return engine


def rewriter(
    engine: Engine,
    folder: Path,
    clock: Pauses,
    free: int = 10**12,
    builder: IndexBuilder = None,  # type: ignore[assignment]  # most collections here have no vectors to index
) -> tuple[Rewriter, list[str]]:
    events: list[str] = []
    made = Rewriter(
        engine,
        folder,
        lambda event, **_fields: events.append(event),
        builder,
        small=SMALL,
        indexed_from=INDEXED_FROM,
        clock=clock,
        free=lambda _folder: free,
        pause=clock.pause,
    )
    return made, events


def points(numbers: range, doc: str) -> list[Point]:
    return [
        Point(id=f"00000000-0000-4000-8000-{n:012d}", payload={"doc": doc, "n": n}, sparse=Sparse([n], [1.0]))
        for n in numbers
    ]


def put(engine: Engine, numbers: range, doc: str) -> None:
    engine.answer(wire.Request("upsert", ("c", points(numbers, doc))))


def delete(engine: Engine, doc: str) -> None:
    engine.answer(wire.Request("delete", ("c", Filter(must=(Match("doc", (doc,)),)))))


def grow(engine: Engine, live: int = 100, dead: int = 150) -> None:
    """Leave so many live and dead points."""
    put(engine, range(live), "live")
    put(engine, range(1000, 1000 + dead), "dead")
    delete(engine, "dead")
    engine.flush()


def size(engine: Engine) -> tuple[int, int]:
    (found,) = engine.answer(wire.Request("sizes", ()))
    return found.live, found.dead


def numbers(engine: Engine) -> list[int]:
    page = engine.answer(wire.Request("scroll", ("c", EVERYTHING, 10_000, None, False, None, None)))
    return sorted(point.payload["n"] for point in page.points)


async def test_a_failed_look_at_the_files_does_not_end_the_rewriting(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    grow(engine)
    made, _events = rewriter(engine, tmp_path, clock)
    gone = [FileNotFoundError("a segment that the engine has just deleted")]

    def free(_folder: Path) -> int:
        if gone:
            raise gone.pop()
        return 10**12

    made.free = free
    rewriting = asyncio.create_task(_Server(engine, made).rewrite_what_is_due(0.001))

    await until(lambda: size(engine)[1] == 0)
    rewriting.cancel()
    await asyncio.wait([rewriting])


@pytest.mark.parametrize(
    ("method", "loop"),
    [
        ("unsynced", lambda server: server.sync()),
        ("answer", lambda server: server.keep(os.getppid(), 0.0)),
        ("flushed_sizes", lambda server: server.rewrite_what_is_due(0.0)),
    ],
    ids=["sync", "keep", "rewrite"],
)
async def test_a_bug_in_one_of_its_loops_ends_the_process_for_another(
    engine: Engine,
    tmp_path: Path,
    clock: Pauses,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    loop: Callable[[_Server], Coroutine[Any, Any, None]],
) -> None:
    made, _events = rewriter(engine, tmp_path, clock)
    server = _Server(engine, made)
    [call] = wire.Frames().feed(wire.call_frame(7, wire.Request("flush", ())))

    def fail(*_: object) -> None:
        raise Panic

    server.take(call, lambda _frame: None)
    with monkeypatch.context() as patched:
        patched.setattr(engine, method, fail)
        async with asyncio.timeout(HANG_S):
            await server.run(loop(server))

    assert server.code == BROKEN


class Panic(BaseException):
    """As one of the engine, it is no Exception."""


async def test_who_asks_for_a_rewrite_gets_an_answer_whatever_fails(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _events = rewriter(engine, tmp_path, clock)
    grow(engine)
    gone = FileNotFoundError("a segment that the engine has just deleted")
    monkeypatch.setattr(engine, "at", lambda _name: (_ for _ in ()).throw(gone))
    [call] = wire.Frames().feed(wire.call_frame(7, wire.Request("rewrite", ("c",))))
    sent: list[bytes] = []

    _Server(engine, made).take(call, sent.append)
    await until(lambda: bool(sent))

    assert b"a segment that the engine has just deleted" in sent[0]


async def test_a_collection_dropped_while_its_copy_is_synced_is_no_failure(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)

    def synced(folder: Path) -> None:
        engine.answer(wire.Request("drop_collection", ("c",)))
        raise FileNotFoundError(folder)

    monkeypatch.setattr(collection_compaction, "sync_tree", synced)

    with pytest.raises(Unserved, match="the copy of 'c' was dropped"):
        await upkeep.now("c")
    assert events == []


def test_dead_points_are_counted_from_the_files_also_after_a_restart(engine: Engine, tmp_path: Path) -> None:
    grow(engine, live=30, dead=50)
    put(engine, range(10), "replaced in place")
    engine.flush()
    assert size(engine) == (30, 50)

    engine.close()
    again = opened(tmp_path)

    assert size(again) == (30, 50)
    again.close()


@pytest.mark.parametrize(
    ("live", "dead", "due"), [(0, 2000, False), (0, 2001, True), (9000, 4500, False), (9000, 4501, True)]
)
def test_a_collection_is_due_when_dead_points_exceed_half_of_the_live_ones_and_two_thousand(
    live: int, dead: int, due: bool
) -> None:
    assert is_due(CollectionSize("c", live, dead, 0)) is due


async def test_given_too_many_dead_points_when_it_is_quiet_then_the_files_are_made_anew(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)
    before = engine.answer(wire.Request("sizes", ()))[0].disk_bytes
    clock.now = 10.0
    await upkeep.look()
    assert size(engine) == (100, 150), "250 points in 10 s are a burst"

    clock.now = 20.0
    await upkeep.look()

    assert size(engine) == (100, 0)
    assert numbers(engine) == list(range(100))
    assert engine.answer(wire.Request("sizes", ()))[0].disk_bytes < before
    assert events == ["store_collection_rewritten"]


async def test_given_an_endless_burst_when_an_hour_has_passed_then_it_waits_no_longer(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, _ = rewriter(engine, tmp_path, clock)
    grow(engine)
    dead = []
    for now in (10.0, 20.0, 10.0 + PATIENCE_S - 1, 10.0 + PATIENCE_S):
        clock.now = now
        engine.written += 10**6
        await upkeep.look()
        dead.append(size(engine)[1])

    assert dead == [150, 150, 150, 0]


async def test_given_writers_when_it_is_copied_then_nothing_is_lost_or_old(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, _ = rewriter(engine, tmp_path, clock)
    grow(engine, live=300, dead=400)

    def write() -> None:
        if clock.pauses == 2:
            put(engine, range(280, 290), "changed")
            put(engine, range(3), "gone")
        if clock.pauses == 4:
            delete(engine, "gone")
        if clock.pauses == 6:  # all is copied by then
            put(engine, range(300, 310), "new")

    clock.meanwhile = write
    clock.now = 1000.0
    await upkeep.look()

    assert clock.pauses > 5
    assert numbers(engine) == list(range(3, 310))
    changed = engine.answer(wire.Request("count", ("c", Filter(must=(Match("doc", ("changed",)),)))))
    assert changed == 10


async def test_given_an_operator_who_forgets_when_a_rewrite_is_under_way_then_the_operator_goes_first(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine, live=300, dead=200)
    asked: list[asyncio.Task[None]] = []

    def forget() -> None:
        if clock.pauses == 1:
            asked.append(asyncio.create_task(upkeep.now("c")))

    clock.meanwhile = forget
    clock.now = 1000.0
    await upkeep.look()
    assert events == []
    await asked[0]

    assert size(engine) == (300, 0)
    assert numbers(engine) == list(range(300))
    assert events == ["store_collection_rewritten"]
    clock.now = 2000.0
    await upkeep.look()
    assert events == ["store_collection_rewritten"], "it isn't due any more"


async def test_given_two_operators_at_once_then_the_second_one_s_rewrite_begins_after_the_first_one_s(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)

    await asyncio.gather(upkeep.now("c"), upkeep.now("c"))

    assert (size(engine), events) == ((100, 0), 2 * ["store_collection_rewritten"])


async def test_given_a_collection_dropped_while_an_operator_s_rewrite_copies_it_then_that_is_said(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)
    clock.meanwhile = lambda: engine.answer(wire.Request("drop_collection", ("c",))) if clock.pauses == 1 else None

    with pytest.raises(Unserved, match="the copy of 'c' was dropped"):
        await upkeep.now("c")
    with pytest.raises(NoCollection):
        await upkeep.now("c")

    assert events == []


async def test_given_a_disk_without_room_when_it_is_due_then_it_waits_and_says_so_once(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    grow(engine)
    needed = int(1.5 * engine.answer(wire.Request("sizes", ()))[0].disk_bytes)
    upkeep, events = rewriter(engine, tmp_path, clock, free=needed - 1)
    for _ in range(3):
        clock.now += 1000.0
        await upkeep.look()
    assert (size(engine), events) == ((100, 150), ["store_rewrite_waits_for_room"])

    upkeep, events = rewriter(engine, tmp_path, clock, free=needed)
    clock.now += 1000.0
    await upkeep.look()

    assert (size(engine), events) == ((100, 0), ["store_collection_rewritten"])


async def test_given_a_collection_dropped_meanwhile_when_it_is_copied_then_that_is_no_failure(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)
    clock.meanwhile = lambda: engine.answer(wire.Request("drop_collection", ("c",))) if clock.pauses == 1 else None
    clock.now = 1000.0

    await upkeep.look()

    assert (engine.answer(wire.Request("collections", ())), events) == ([], [])


async def test_given_a_disk_that_fails_when_it_is_copied_then_the_old_files_stay_and_it_is_tried_again_later(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)

    def full() -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(engine.at("c"), "flush_copy", full)
        clock.now = 1000.0
        await upkeep.look()
        clock.now += 100.0
        await upkeep.look()
    assert (size(engine), events) == ((100, 150), ["store_rewrite_failed"])

    clock.now += PATIENCE_S
    await upkeep.look()

    assert size(engine) == (100, 0)


async def test_given_leftovers_that_cannot_be_deleted_then_other_collections_are_made_anew(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)
    engine.answer(wire.Request("create_collection", ("d", None, True, {"doc": "keyword"})))
    engine.answer(wire.Request("upsert", ("d", points(range(1000), "dead"))))
    engine.answer(wire.Request("delete", ("d", Filter(must=(Match("doc", ("dead",)),)))))
    engine.flush()

    def clear() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(engine.at("c"), "clear", clear)
    for now in (1000.0, 1100.0):
        clock.now = now
        await upkeep.look()

    assert events == ["store_rewrite_failed", "store_collection_rewritten"]


async def test_given_a_disk_that_fails_an_operator_then_the_sentence_says_so_and_the_old_files_stay(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, _ = rewriter(engine, tmp_path, clock)
    grow(engine)

    def full() -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine.at("c"), "flush_copy", full)
    with pytest.raises(Unserved, match=r"the rewrite of 'c' failed: .*No space left"):
        await upkeep.now("c")

    assert (size(engine), len(numbers(engine))) == ((100, 150), 100)


# -- the index of vectors ----------------------------------------------------------------------------


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[IndexBuilder]:
    made = IndexBuilder(tmp_path)
    yield made
    made._process.communicate()


@pytest.fixture(params=[False, True], ids=["full", "half"])
def indexable(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    """An engine whose collection `v` has just enough vectors for an index, each of a document of its own."""
    engine.answer(wire.Request("create_collection", ("v", SIZE, True, {"doc": "keyword"}, request.param)))
    engine.answer(wire.Request("create_collection", ("heads", None, False, {})))
    put_vectors(engine, range(INDEXED_FROM))
    engine.flush()
    return engine


def an_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def a_vector(number: int) -> NDArray[np.float32]:
    return np.random.default_rng(number).standard_normal(SIZE, dtype=np.float32)


def put_vectors(engine: Engine, numbers: range) -> None:
    heads = [Point(id=an_id(n), payload={"version": 1}) for n in numbers]
    engine.answer(wire.Request("upsert", ("heads", heads)))
    chunks = [
        Point(
            id=an_id(n),
            payload={"doc": "a", "n": n, "metadata": {"documentId": an_id(n), "version": 1}},
            dense=a_vector(n),
            sparse=Sparse([n], [1.0]),
        )
        for n in numbers
    ]
    engine.answer(wire.Request("upsert", ("v", chunks)))


def best(engine: Engine, number: int) -> tuple[int, float | None]:
    """Return the number of the point that is nearest to that of a number, and its cosine."""
    legs = [Leg(dense=a_vector(number)), Leg(sparse=Sparse([number], [1.0]))]
    ((nearest, *_), _) = engine.answer(wire.Request("search", ("v", legs, EVERYTHING, 5, "heads"))).hits()
    return nearest.payload["n"], nearest.cosine


@pytest.mark.parametrize(
    ("live", "unindexed", "due"),
    [(19_999, 19_999, False), (20_000, 20_000, True), (80_000, 20_000, True), (80_001, 20_000, False)],
)
def test_an_index_is_due_for_twenty_thousand_vectors_that_are_a_quarter_of_all(
    live: int, unindexed: int, due: bool
) -> None:
    assert is_index_due(CollectionSize("c", live, 0, 0), unindexed) is due


@pytest.mark.feature(121)
async def test_given_enough_vectors_then_their_index_is_built_and_writes_go_on_meanwhile(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder
) -> None:
    upkeep, events = rewriter(indexable, tmp_path, clock, builder=builder)
    begun = builder.begin

    def write(shard: Path, vectors: VectorFormat) -> None:
        begun(shard, vectors)
        put_vectors(indexable, range(INDEXED_FROM, INDEXED_FROM + 10))
        indexable.answer(wire.Request("delete", ("v", Filter(must=(Ids((an_id(3),)),)))))
        indexable.answer(wire.Request("upsert", ("heads", [Point(id=an_id(4), payload={"version": 2})])))
        assert best(indexable, 5)[0] == 5, "reads go on, too"

    builder.begin = write  # type: ignore[method-assign]  # something happens during the build
    clock.now = 1000.0
    await upkeep.look()

    assert events == ["store_collection_rewritten"]
    assert indexable.at("v").unindexed() == 10
    found = [best(indexable, n) for n in (0, 7, INDEXED_FROM - 1, INDEXED_FROM, INDEXED_FROM + 9)]
    assert [number for number, _ in found] == [0, 7, INDEXED_FROM - 1, INDEXED_FROM, INDEXED_FROM + 9]
    assert [cosine for _, cosine in found] == pytest.approx([1.0] * 5, abs=5e-4), "of the vectors, not of their codes"
    assert best(indexable, 3)[0] != 3
    assert best(indexable, 4)[0] != 4, "its head is another version"

    clock.now = 2000.0
    await upkeep.look()
    assert events == ["store_collection_rewritten"], "ten more are no reason to build it again"


async def test_given_an_operator_who_rewrites_enough_vectors_then_they_have_their_index_afterwards(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder
) -> None:
    upkeep, events = rewriter(indexable, tmp_path, clock, builder=builder)
    upkeep.indexed_from = INDEXED_FROM - 1
    indexable.answer(wire.Request("delete", ("v", Filter(must=(Ids((an_id(3),)),)))))

    await upkeep.now("v")

    assert events == ["store_collection_rewritten"]
    assert indexable.at("v").unindexed() == 0, "or each search would compare all vectors until the next rewrite"
    assert best(indexable, 7)[0] == 7


@pytest.mark.parametrize("fault", ["gone", "ends", "fails"])
async def test_given_an_index_that_cannot_be_built_when_an_operator_forgets_then_the_files_are_made_anew_all_the_same(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder, fault: str
) -> None:
    upkeep, events = rewriter(indexable, tmp_path, clock, builder=builder)
    put_vectors(indexable, range(INDEXED_FROM, INDEXED_FROM + 10))
    indexable.answer(wire.Request("delete", ("v", Filter(must=(Ids((an_id(3),)),)))))
    begun = builder.begin

    def begin(shard: Path, vectors: VectorFormat) -> None:
        begun(shard, vectors._replace(size=vectors.size + 1) if fault == "fails" else vectors)
        if fault == "ends":
            builder._process.kill()

    builder.begin = begin  # type: ignore[method-assign]  # something happens during the build
    if fault == "gone":
        builder._process.kill()
        builder._process.wait()

    for _ in range(2):
        await upkeep.now("v")

    assert events == 2 * ["store_index_not_built", "store_collection_rewritten"]
    sizes = {each.name: (each.live, each.dead) for each in indexable.answer(wire.Request("sizes", ()))}
    assert sizes["v"] == (INDEXED_FROM + 9, 0)
    assert len([*(tmp_path / "collections" / "v").glob("shard-*")]) == 1
    assert best(indexable, 7)[0] == 7


async def test_given_a_collection_dropped_during_the_build_then_the_build_ends(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder
) -> None:
    upkeep, events = rewriter(indexable, tmp_path, clock, builder=builder)
    begun = builder.begin

    def drop(shard: Path, vectors: VectorFormat) -> None:
        begun(shard, vectors)
        indexable.answer(wire.Request("drop_collection", ("v",)))

    builder.begin = drop  # type: ignore[method-assign]  # something happens during the build
    clock.now = 1000.0
    await upkeep.look()

    assert events == []
    assert indexable.answer(wire.Request("collections", ())) == ["c", "heads"]


@CI_ONLY
async def test_given_a_build_that_fails_then_searches_go_on_as_before_and_it_is_tried_an_hour_later(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder
) -> None:
    upkeep, events = rewriter(indexable, tmp_path, clock, builder=builder)
    begun = builder.begin
    builder.begin = lambda shard, vectors: begun(shard, vectors._replace(size=vectors.size + 1))  # type: ignore[method-assign]
    clock.now = 1000.0
    await upkeep.look()
    assert events == ["store_rewrite_failed"]
    assert best(indexable, 7)[0] == 7

    builder.begin = begun  # type: ignore[method-assign]
    clock.now += PATIENCE_S - 1
    await upkeep.look()
    assert events == ["store_rewrite_failed"]
    clock.now += 2
    await upkeep.look()

    assert events == ["store_rewrite_failed", "store_collection_rewritten"]
    assert [path.name for path in (tmp_path / "collections" / "v").iterdir() if path.name == "shard"] == []


async def test_a_store_without_room_for_three_copies_builds_no_index(
    indexable: Engine, tmp_path: Path, clock: Pauses, builder: IndexBuilder
) -> None:
    size = next(each for each in indexable.answer(wire.Request("sizes", ())) if each.name == "v")
    upkeep, events = rewriter(indexable, tmp_path, clock, free=3 * size.disk_bytes - 1, builder=builder)
    clock.now = 1000.0
    await upkeep.look()
    assert events == ["store_rewrite_waits_for_room"]
