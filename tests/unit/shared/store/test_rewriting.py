"""Collections rewritten by themselves: when, beside what, and that nothing is lost meanwhile."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.store import EVERYTHING, CollectionSize, Filter, Match, Point, Sparse, wire
from shared.store.engine import Engine, Unserved
from shared.store.rewriting import PATIENCE_S, Rewriter, is_due
from tests.fakes.clock import SetClock

SMALL = 100


class Pauses(SetClock):
    """A clock whose pauses are counted; something may happen in each."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.meanwhile: Callable[[], None] = lambda: None
        self.pauses = 0

    async def pause(self, _seconds: float) -> None:
        self.pauses += 1
        self.meanwhile()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = opened(tmp_path)
    engine.answer(wire.Create("c", None, True, {"doc": "keyword"}))
    yield engine
    engine.close()


@pytest.fixture
def clock() -> Pauses:
    return Pauses()


def opened(folder: Path) -> Engine:
    engine = Engine(folder)
    engine.load(lambda _name, _seconds: None)
    return engine


def rewriter(engine: Engine, folder: Path, clock: Pauses, free: int = 10**12) -> tuple[Rewriter, list[str]]:
    events: list[str] = []
    made = Rewriter(
        engine,
        folder,
        lambda event, **_fields: events.append(event),
        small=SMALL,
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
    engine.answer(wire.Upsert("c", points(numbers, doc)))


def delete(engine: Engine, doc: str) -> None:
    engine.answer(wire.Delete("c", Filter(must=(Match("doc", (doc,)),))))


def grow(engine: Engine, live: int = 100, dead: int = 150) -> None:
    """Leave so many live and dead points."""
    put(engine, range(live), "live")
    put(engine, range(1000, 1000 + dead), "dead")
    delete(engine, "dead")
    engine.flush()


def size(engine: Engine) -> tuple[int, int]:
    (found,) = engine.answer(wire.Sizes())
    return found.live, found.dead


def numbers(engine: Engine) -> list[int]:
    page = engine.answer(wire.Scroll("c", EVERYTHING, 10_000, None, vectors=False, fields=None))
    return sorted(point.payload["n"] for point in page.points)


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
    before = engine.answer(wire.Sizes())[0].disk_bytes
    clock.now = 10.0
    await upkeep.look()
    assert size(engine) == (100, 150), "250 points in 10 s are a burst"

    clock.now = 20.0
    await upkeep.look()

    assert size(engine) == (100, 0)
    assert numbers(engine) == list(range(100))
    assert engine.answer(wire.Sizes())[0].disk_bytes < before
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
    changed = engine.answer(wire.Count("c", Filter(must=(Match("doc", ("changed",)),))))
    assert changed == 10


async def test_given_an_operator_who_forgets_when_a_rewrite_is_under_way_then_the_operator_goes_first(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine, live=300, dead=200)
    answers: list[str | None] = []

    def forget() -> None:
        if clock.pauses == 1:
            answers.append(engine.answer(wire.Rewrite("c", None, 100)))

    clock.meanwhile = forget
    clock.now = 1000.0
    await upkeep.look()
    assert events == []
    clock.now = 2000.0
    await upkeep.look()  # and none begins beside the operator's
    while (after := answers[-1]) is not None:
        answers.append(engine.answer(wire.Rewrite("c", after, 100)))

    assert size(engine) == (300, 0)
    assert numbers(engine) == list(range(300))


async def test_given_a_disk_without_room_when_it_is_due_then_it_waits_and_says_so_once(
    engine: Engine, tmp_path: Path, clock: Pauses
) -> None:
    grow(engine)
    needed = int(1.5 * engine.answer(wire.Sizes())[0].disk_bytes)
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
    clock.meanwhile = lambda: engine.answer(wire.Drop("c")) if clock.pauses == 1 else None
    clock.now = 1000.0

    await upkeep.look()

    assert (engine.answer(wire.Collections()), events) == ([], [])


async def test_given_a_disk_that_fails_when_it_is_copied_then_the_old_files_stay_and_it_is_tried_again_later(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, events = rewriter(engine, tmp_path, clock)
    grow(engine)

    def full(_name: str) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "flush_copy", full)
        clock.now = 1000.0
        await upkeep.look()
        clock.now += 100.0
        await upkeep.look()
    assert (size(engine), events) == ((100, 150), ["store_rewrite_failed"])

    clock.now += PATIENCE_S
    await upkeep.look()

    assert size(engine) == (100, 0)


async def test_given_a_rewrite_that_nobody_goes_on_with_when_another_begins_then_the_old_one_is_told(
    engine: Engine, tmp_path: Path, clock: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, _ = rewriter(engine, tmp_path, clock)
    grow(engine)
    after = engine.answer(wire.Rewrite("c", None, 10))
    monkeypatch.setattr("shared.store.engine._ABANDONED_S", 0.0)
    clock.now = 1000.0

    await asyncio.wait_for(upkeep.look(), 60)

    assert size(engine) == (100, 0)
    with pytest.raises(Unserved, match="the rewrite of 'c' was abandoned"):
        engine.answer(wire.Rewrite("c", after, 10))
