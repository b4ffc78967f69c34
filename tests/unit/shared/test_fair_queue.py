"""A fair queue takes items round-robin by flow."""

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest

from shared.fair_queue import FairQueue, FairTurns, Rotation


def test_an_item_waits_for_one_of_each_other_flow_and_for_its_own() -> None:
    queue = FairQueue[str]()
    for number in range(4):
        queue.put("searches", f"search {number}")
    queue.put("writes", "write 0")
    queue.put("writes", "write 1")
    taken = [queue.take()]
    queue.put("registry", "registry 0")

    while queue:
        taken.append(queue.take())

    assert taken == ["search 0", "write 0", "search 1", "registry 0", "write 1", "search 2", "search 3"]


def test_an_empty_queue_has_nothing_to_take() -> None:
    queue = FairQueue[str]()
    queue.put("flow", "item")
    queue.take()

    assert not queue
    with pytest.raises(StopIteration):
        queue.take()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_callers_take_turns_and_each_keeps_its_order() -> None:
    queue, started = Rotation(), list[str]()
    for caller, number in (("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 4), ("c", 1), ("b", 2)):
        queue.add(caller, lambda name=f"{caller}{number}": started.append(name))  # type: ignore[misc]

    await _turns(20)

    assert started == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_one_starts_in_each_turn_and_the_first_one_at_once() -> None:
    queue, started = Rotation(), list[int]()
    for number in range(5):
        queue.add("a", lambda number=number: started.append(number))  # type: ignore[misc]
    seen = [len(started)]
    for _ in range(6):
        await _turns(1)
        seen.append(len(started))

    assert seen == [1, 2, 3, 4, 5, 5, 5]
    queue.add("a", lambda: started.append(5))
    assert started[-1] == 5, "nothing waits, so it starts at once"


async def test_a_start_that_fails_holds_up_no_other() -> None:
    queue, started = Rotation(), list[str]()

    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        queue.add("a", fail)
    queue.add("a", lambda: started.append("after"))
    await _turns(3)

    assert started == ["after"]


async def settled() -> None:
    """Return when every task has come as far as it can: none of them waits for anything but a turn."""
    for _ in range(5):
        await asyncio.sleep(0)


async def waiting(turns: FairTurns, tenants: Sequence[str], served: list[str]) -> list[asyncio.Task[None]]:
    async def wait(tenant: str) -> None:
        await turns.acquire(tenant)
        served.append(tenant)

    tasks = [asyncio.create_task(wait(tenant)) for tenant in tenants]
    await settled()
    return tasks


async def test_given_a_crowd_of_one_tenant_when_another_comes_then_it_is_next_but_one() -> None:
    turns, served = FairTurns(1), list[str]()
    await turns.acquire("crowd")
    await waiting(turns, ["crowd", "crowd", "crowd", "other", "third"], served)

    for _ in range(5):
        turns.release((["crowd", *served])[-1])
        await settled()

    assert served == ["crowd", "other", "third", "crowd", "crowd"]


async def test_as_many_turns_as_its_size_are_given_at_once() -> None:
    turns, served = FairTurns(2), list[str]()

    await waiting(turns, ["a", "a", "b"], served)

    assert served == ["a", "a"]
    assert turns.locked("c")


async def test_a_waiter_that_gave_up_is_passed_over() -> None:
    turns, served = FairTurns(1), list[str]()
    await turns.acquire("a")
    first, _ = await waiting(turns, ["b", "c"], served)
    first.cancel()
    await settled()

    turns.release("a")
    await settled()

    assert served == ["c"]


async def test_a_turn_that_came_with_the_cancellation_is_passed_on() -> None:
    turns, served = FairTurns(1), list[str]()
    await turns.acquire("a")
    first, _ = await waiting(turns, ["b", "c"], served)

    turns.release("a")
    first.cancel()  # before it could run
    with pytest.raises(asyncio.CancelledError):
        await first
    await settled()

    assert served == ["c"]


async def test_when_nobody_waits_the_turn_is_free_again() -> None:
    turns = FairTurns(1)
    await turns.acquire("a")

    turns.release("a")

    assert not turns.locked("c")


async def test_a_tenant_whose_turns_never_end_leaves_the_others_theirs() -> None:
    turns, served = FairTurns(4, 2), list[str]()

    stuck = await waiting(turns, ["stuck"] * 100, served)
    assert turns.locked("stuck")
    assert not turns.locked("other")
    await waiting(turns, ["other", "other", "other"], served)
    turns.release("other")
    await settled()

    assert served == ["stuck", "stuck", "other", "other", "other"]
    for task in stuck:
        task.cancel()


async def test_a_share_is_whole_after_waiters_gave_up() -> None:
    turns, served = FairTurns(1, 1), list[str]()
    await turns.acquire("a")
    for task in await waiting(turns, ["a", "b", "b"], served):
        task.cancel()
    await settled()

    turns.release("a")
    await waiting(turns, ["b"], served)

    assert served == ["b"]


@pytest.mark.parametrize("each", [None, 1])
async def test_a_tenant_that_has_no_turn_and_waits_for_none_takes_no_memory(each: int | None) -> None:
    turns = FairTurns(2, each)

    async def use(tenant: str) -> None:
        await turns.acquire(tenant)
        late = asyncio.create_task(turns.acquire(tenant))  # gives up
        await asyncio.sleep(0)
        turns.locked(f"{tenant} asks only")
        late.cancel()
        await asyncio.wait([late])
        if not late.cancelled():
            turns.release(tenant)
        turns.release(tenant)

    await use("the first one")
    tracemalloc.start()
    try:
        for number in range(500):
            await use(f"tenant {number}")
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert left < 50_000
