"""A fair queue takes items round-robin by flow."""

import asyncio

import pytest

from shared.fair_queue import FairQueue, Rotation


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
