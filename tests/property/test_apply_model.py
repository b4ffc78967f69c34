"""All interleavings of two workers that apply versions of one document, crashes anywhere.

The workers run the real rule, `advance`, on a world of three facts: points, head, and what the worker read.
N applies versions in order and may crash and start again, or be sent back one record; Z is a zombie that
holds one version, sleeps as long as it likes, wakes and writes, and may die at any step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from services.embed_worker.switch import SwitchStep, advance

POINTS = 2
DELETED = 3  # the version that deletes the document

Advance = Callable[[SwitchStep, int, int | None], SwitchStep]
Delete = Callable[[int, int], bool]  # (a point's version, ours) -> does it go?


class Worker(NamedTuple):
    version: int
    step: SwitchStep = SwitchStep.FENCE
    put: int = 0
    alive: bool = True


class World(NamedTuple):
    points: frozenset[tuple[int, int]]
    head: int
    gone: bool  # the head says that the document is deleted
    queue: int  # index of N's record
    n: Worker | None
    z: Worker
    crashes: int


def below(point: int, ours: int) -> bool:
    return point < ours


def move(world: World, worker: Worker, rule: Advance, delete: Delete) -> tuple[World, Worker]:
    """One step of one worker: the effect of `worker.step`, then the real rule."""
    version = worker.version
    wanted = 0 if version == DELETED else POINTS
    match worker.step:
        case SwitchStep.PUT if worker.put < wanted:
            points = world.points | {(version, worker.put)}
            return world._replace(points=points), worker._replace(put=worker.put + 1)
        case SwitchStep.SWITCH:
            if world.head < version:
                world = world._replace(head=version, gone=version == DELETED)
        case SwitchStep.DELETE:
            world = world._replace(points=frozenset(p for p in world.points if not delete(p[0], version)))
        case SwitchStep.WITHDRAW:
            world = world._replace(points=frozenset(p for p in world.points if p[0] != version))
    return world, worker._replace(step=rule(worker.step, version, world.head), put=0)


def successors(
    world: World, versions: tuple[int, ...], rule: Advance, delete: Delete, *, deaths: bool
) -> Iterator[World]:
    if world.queue < len(versions):
        n = world.n or Worker(versions[world.queue])
        after, moved = move(world, n, rule, delete)
        if moved.step is SwitchStep.END:
            yield after._replace(queue=world.queue + 1, n=None)
        else:
            yield after._replace(n=moved)
        if world.crashes:
            yield world._replace(n=None, crashes=world.crashes - 1)
            if world.queue:
                yield world._replace(queue=world.queue - 1, n=None, crashes=world.crashes - 1)
    if world.z.alive:
        if deaths:
            yield world._replace(z=world.z._replace(alive=False))
        after, moved = move(world, world.z, rule, delete)
        yield after._replace(z=moved._replace(alive=moved.step is not SwitchStep.END))


def explore(
    zombie: int, versions: tuple[int, ...], rule: Advance = advance, delete: Delete = below, *, deaths: bool = True
) -> tuple[int, set[str]]:
    """Return how many states there are, and the names of what went wrong in any."""
    points = frozenset((1, i) for i in range(POINTS))
    first = World(points, 1, gone=False, queue=0, n=None, z=Worker(zombie), crashes=int(deaths))
    seen, stack, wrong = {first}, [first], set[str]()
    while stack:
        world = stack.pop()
        visible = frozenset() if world.gone else frozenset(p for p in world.points if p[0] == world.head)
        if not world.gone and len(visible) != POINTS:
            wrong.add("a reader saw a gap")
        after = list(successors(world, versions, rule, delete, deaths=deaths))
        if not after:
            newest = versions[-1]
            want = frozenset() if newest == DELETED else frozenset((newest, i) for i in range(POINTS))
            if visible != want:
                wrong.add("the newest version doesn't answer")
            if not deaths and world.points != want:
                wrong.add("points of another version stay")
        for state in after:
            if state not in seen:
                seen.add(state)
                stack.append(state)
    return len(seen), wrong


@pytest.mark.parametrize(
    ("zombie", "versions"),
    [(2, (2, 3, 4)), (3, (2, 3, 4)), (4, (2, 3, 4)), (2, (2, 3)), (3, (2, 3))],
)
def test_every_interleaving_ends_with_the_newest_version_and_no_reader_sees_a_gap(
    zombie: int, versions: tuple[int, ...]
) -> None:
    states, wrong = explore(zombie, versions)

    assert wrong == set()
    assert states > 300


def no_fence(step: SwitchStep, version: int, head: int | None) -> SwitchStep:
    return advance(step, version, None)


def head_before_points(step: SwitchStep, version: int, head: int | None) -> SwitchStep:
    order = {SwitchStep.FENCE: SwitchStep.SWITCH, SwitchStep.SWITCH: SwitchStep.PUT, SwitchStep.PUT: SwitchStep.DELETE}
    right = advance(step, version, head)
    return right if right is SwitchStep.WITHDRAW else order.get(step, right)


@pytest.mark.parametrize(
    ("rule", "delete"),
    [
        pytest.param(advance, lambda point, ours: point != ours, id="delete every other version"),
        pytest.param(advance, lambda point, ours: point <= ours, id="delete up to our own"),
        pytest.param(head_before_points, below, id="head before the points"),
    ],
)
def test_the_rules_that_come_to_mind_first_are_caught(rule: Advance, delete: Delete) -> None:
    found = set.union(*(explore(z, (2, 3, 4), rule, delete)[1] for z in (2, 3, 4)))

    assert found


def no_withdrawal(step: SwitchStep, version: int, head: int | None) -> SwitchStep:
    right = advance(step, version, head)
    return SwitchStep.END if right is SwitchStep.WITHDRAW else right


@pytest.mark.parametrize(
    ("rule", "leaves"),
    [
        (advance, set()),
        (no_fence, {"points of another version stay"}),
        (no_withdrawal, {"points of another version stay"}),
    ],
)
def test_where_nobody_dies_nobody_leaves_garbage(rule: Advance, leaves: set[str]) -> None:
    assert set.union(*(explore(z, (2, 4), rule, deaths=False)[1] for z in (2, 4))) == leaves


class Giving(NamedTuple):
    """A worker that applies a version, or gives it up: when its model refuses the last text."""

    fails: bool
    step: SwitchStep | str = SwitchStep.FENCE
    put: int = 0


class GivenUp(NamedTuple):
    """What two workers of one version make of it; version 1 answers in the beginning."""

    points: frozenset[int]  # of version 2
    head: int
    withdrawn: bool
    workers: tuple[Giving | None, Giving | None]


def give_up(world: GivenUp, worker: Giving, *, marks: bool) -> tuple[GivenUp, Giving | None]:
    """One step of one worker. Giving up is two steps: to look at the head, marking it or not; then to delete."""
    match worker.step:
        case SwitchStep.PUT if worker.put < POINTS - worker.fails:
            return world._replace(points=world.points | {worker.put}), worker._replace(put=worker.put + 1)
        case SwitchStep.PUT if worker.fails:
            return world, worker._replace(step="look")
        case "look":
            if world.head == 2:
                return world, None  # it answers: nothing is deleted
            return world._replace(withdrawn=world.withdrawn or marks), worker._replace(step="delete")
        case "delete" | SwitchStep.REFUSED:
            return world._replace(points=frozenset()), None
        case SwitchStep.SWITCH if not world.withdrawn:
            world = world._replace(head=2)
    assert isinstance(worker.step, SwitchStep)
    following = advance(worker.step, 2, world.head)
    return world, None if following is SwitchStep.END else worker._replace(step=following)


@pytest.mark.parametrize(("marks", "gap"), [(True, False), (False, True)])
def test_a_version_that_one_worker_gives_up_and_another_finishes_answers_whole_or_not_at_all(
    marks: bool, gap: bool
) -> None:
    first = GivenUp(frozenset(), 1, False, (Giving(fails=False), Giving(fails=True)))
    seen, stack, gaps, left, ends = {first}, [first], 0, 0, set[int]()
    while stack:
        world = stack.pop()
        gaps += world.head == 2 and len(world.points) < POINTS
        working = [(at, worker) for at, worker in enumerate(world.workers) if worker is not None]
        if not working:
            ends.add(world.head)
            left += world.head == 1 and bool(world.points)
        for at, worker in working:
            after, moved = give_up(world, worker, marks=marks)
            workers = (moved, after.workers[1]) if at == 0 else (after.workers[0], moved)
            state = after._replace(workers=workers)
            if state not in seen:
                seen.add(state)
                stack.append(state)

    assert (bool(gaps), ends) == (gap, {1, 2} if marks else {2})
    assert not (marks and left)
