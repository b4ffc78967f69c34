"""All interleavings of two workers that apply versions of one document, crashes anywhere.

The workers run the real rule, `advance`, on a world of three facts: points, head, and what the worker read.
N applies versions in order and may crash and start again, or be sent back one record; Z is a zombie that
holds one version, sleeps as long as it likes, wakes and writes, and may die at any step.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from services.embed_worker.version_switch import SwitchStep, advance

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


class Attempt(NamedTuple):
    """A worker that applies a version, or withdraws it because its model refuses the last text."""

    version: int
    number: int = 0  # redrives of the version so far
    fails: bool = False
    after: int | None = None  # index of the worker that must be done before this one begins
    step: SwitchStep | str = SwitchStep.FENCE
    put: int = 0
    missing: bool = False  # what it found when it looked for the point that it writes next


def striking(version: int, after: int) -> Attempt:
    """Return who takes a version out of the truth because too many have failed (ADR 0007)."""
    return Attempt(version, number=99, after=after, step="strike")


class Sweeper(NamedTuple):
    """A sweep, between what it saw and what it deletes."""

    stale: frozenset[tuple[int, int]] | None = None  # versions above the head, and the attempt that was withdrawn


class Withdrawing(NamedTuple):
    """What several workers and a sweep make of versions that fail; version 1 answers in the beginning."""

    points: frozenset[tuple[int, int, int]]  # version, order, attempt that wrote it; one for each version and order
    head: int
    withdrawn: frozenset[tuple[int, int]]  # versions, and the attempt that was withdrawn
    workers: tuple[Attempt | None, ...]  # None: done
    sweeper: Sweeper | None
    forgotten: frozenset[int] = frozenset()  # versions that left the truth


class Rules(NamedTuple):
    """What the workers keep to. Each rule switched off must be caught."""

    marks: bool = True  # a version is marked as withdrawn before its points are deleted
    remembers_all: bool = True  # a mark doesn't replace the mark of another version
    by_attempt: bool = True  # a point is neither deleted nor overwritten in the name of an earlier attempt
    strikes_withdrawn: bool = True  # a version leaves the truth only when no redrive can make it answer


def refused(world: Withdrawing, worker: Attempt) -> bool:
    return any(version == worker.version and attempt >= worker.number for version, attempt in world.withdrawn)


def without(world: Withdrawing, version: int, attempt: int, rules: Rules) -> Withdrawing:
    """Delete the version's points, but those that a later attempt has written."""
    left = (p for p in world.points if p[0] != version or (rules.by_attempt and p[2] > attempt))
    return world._replace(points=frozenset(left))


def marked(world: Withdrawing, worker: Attempt, rules: Rules) -> Withdrawing:
    if not rules.marks or refused(world, worker):
        return world
    kept = (m for m in world.withdrawn if m[0] != worker.version and rules.remembers_all)
    return world._replace(withdrawn=frozenset((*kept, (worker.version, worker.number))))


def written(world: Withdrawing, worker: Attempt, rules: Rules) -> Withdrawing:
    """Write the point that the worker found missing, unless a later attempt has written it by now."""
    where = worker.version, worker.put
    standing = next((p for p in world.points if p[:2] == where), None)
    if standing is not None and rules.by_attempt and standing[2] > worker.number:
        return world
    return world._replace(points=(world.points - {standing}) | {(*where, worker.number)})


def attempted(world: Withdrawing, worker: Attempt, rules: Rules) -> tuple[Withdrawing, Attempt | None]:
    """One step of one worker; None: it is done."""
    version = worker.version
    match worker.step:
        case SwitchStep.PUT if worker.fails and worker.put == POINTS - 1:
            return world, worker._replace(step="mark")
        case SwitchStep.PUT if worker.put < POINTS:
            at_least = worker.number if rules.by_attempt else 0
            there = any(p[:2] == (version, worker.put) and p[2] >= at_least for p in world.points)
            return world, worker._replace(step="write", missing=not there)
        case "write":
            world = written(world, worker, rules) if worker.missing else world
            return world, worker._replace(step=SwitchStep.PUT, put=worker.put + 1)
        case "mark":
            if world.head >= version:
                return world, None if world.head == version else worker._replace(step="delete")
            return marked(world, worker, rules), worker._replace(step="delete")
        case "strike" if world.head == version:
            return world, None
        case "strike":
            fenced = marked(world, worker, rules) if rules.strikes_withdrawn and world.head < version else world
            return fenced, worker._replace(step="tombstone")
        case "tombstone":
            return world._replace(forgotten=world.forgotten | {version}), None
        case "delete" | SwitchStep.REFUSED:
            return without(world, version, worker.number, rules), None
        case SwitchStep.WITHDRAW:
            return without(world, version, 99, rules), None
        case SwitchStep.SWITCH if world.head < version and not refused(world, worker):
            later = frozenset(m for m in world.withdrawn if m[0] > version)
            world = world._replace(head=version, withdrawn=later)
    assert isinstance(worker.step, SwitchStep)
    if worker.step is SwitchStep.DELETE:
        world = world._replace(points=frozenset(p for p in world.points if p[0] >= version))
    following = advance(worker.step, version, world.head)
    return world, None if following is SwitchStep.END else worker._replace(step=following)


def swept(world: Withdrawing, rules: Rules) -> Withdrawing:
    """One step of the sweep: look, or delete what was seen."""
    assert world.sweeper is not None
    if world.sweeper.stale is None:
        below = {(p[0], 99) for p in world.points if p[0] < world.head}
        above = {m for m in world.withdrawn if m[0] > world.head}
        return world._replace(sweeper=Sweeper(frozenset(below | above)))
    for version, attempt in world.sweeper.stale:
        world = without(world, version, attempt, rules)
    return world._replace(sweeper=None)


def withdrawals(workers: tuple[Attempt, ...], rules: Rules) -> tuple[int, set[str], set[int]]:
    """Return how many states there are, what went wrong in any, and the versions that answer in the end."""
    first = Withdrawing(frozenset(), 1, frozenset(), workers, Sweeper())
    seen, stack, wrong, ends = {first}, [first], set[str](), set[int]()
    while stack:
        world = stack.pop()
        if world.head > 1 and sum(p[0] == world.head for p in world.points) < POINTS:
            wrong.add("a reader saw a gap")
        if world.head in world.forgotten:
            wrong.add("a version answers that is out of the truth")
        after = [swept(world, rules)] if world.sweeper is not None else []
        for at, worker in enumerate(world.workers):
            if worker is None or (worker.after is not None and world.workers[worker.after] is not None):
                continue
            state, moved = attempted(world, worker, rules)
            after.append(state._replace(workers=(*world.workers[:at], moved, *world.workers[at + 1 :])))
            if worker.after is None and not worker.fails:  # it dies
                after.append(world._replace(workers=(*world.workers[:at], None, *world.workers[at + 1 :])))
        if not after:
            ends.add(world.head)
            last = swept(swept(world._replace(sweeper=Sweeper()), rules), rules)
            if any(p[0] != world.head for p in last.points):
                wrong.add("points of another version stay")
        for state in after:
            if state not in seen:
                seen.add(state)
                stack.append(state)
    return len(seen), wrong, ends


REDRIVEN = (Attempt(2), Attempt(2, fails=True), Attempt(2, number=1, after=1))
REDRIVEN_IN_VAIN = (*REDRIVEN[:2], Attempt(2, number=1, fails=True, after=1))
TWO_FAIL = (Attempt(2), Attempt(2, fails=True), Attempt(3, fails=True, after=1))
STRUCK = (*REDRIVEN, striking(2, after=1))  # while a redrive is under way
STRUCK_BELOW = (Attempt(2, fails=True), Attempt(2, number=1, after=0), striking(2, after=0), Attempt(3, after=0))


@pytest.mark.parametrize(
    ("workers", "ends"),
    [
        (REDRIVEN, {2}),
        (REDRIVEN_IN_VAIN, {1, 2}),
        (TWO_FAIL, {1, 2}),
        (STRUCK, {1, 2}),
        (STRUCK_BELOW, {3}),
    ],
)
def test_a_version_that_one_worker_withdraws_and_another_finishes_answers_whole_or_not_at_all(
    workers: tuple[Attempt, ...], ends: set[int]
) -> None:
    states, wrong, answering = withdrawals(workers, Rules())

    assert wrong == set()
    assert answering == ends
    assert states > 1000


@pytest.mark.parametrize(
    ("workers", "rules"),
    [
        (REDRIVEN_IN_VAIN, Rules(marks=False)),
        (TWO_FAIL, Rules(remembers_all=False)),
        (REDRIVEN, Rules(by_attempt=False)),
        (STRUCK, Rules(strikes_withdrawn=False)),
    ],
)
def test_each_rule_of_withdrawing_is_needed(workers: tuple[Attempt, ...], rules: Rules) -> None:
    assert withdrawals(workers, rules)[1]
