import asyncio
import math
from collections.abc import Sequence

import pytest

from shared.errors import Unavailable
from shared.state.batching import Batcher
from shared.times import PATIENCE


class Loads:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun = asyncio.Event()

    async def __call__(self, keys: Sequence[str]) -> dict[str, int]:
        self.calls.append(list(keys))
        self.begun.set()
        await asyncio.sleep(0)
        if "broken" in keys:
            raise Unavailable("the store is away")
        if "refused" in keys:
            raise ValueError("a value that the store doesn't take")
        return {key: len(key) for key in keys if key != "unknown"}


async def test_look_ups_of_one_turn_share_one_call() -> None:
    load = Loads()
    batcher = Batcher(load)

    found = await asyncio.gather(*(batcher.get(key) for key in ("a", "bb", "a", "unknown")))

    assert found == [1, 2, 1, None]
    assert load.calls == [["a", "bb", "unknown"]]


async def test_a_look_up_never_joins_a_call_that_has_begun() -> None:
    load = Loads()
    batcher = Batcher(load)
    first = asyncio.create_task(batcher.get("a"))
    await load.begun.wait()

    await batcher.get("a")
    await first

    assert load.calls == [["a"], ["a"]]


async def test_many_keys_are_asked_for_in_several_calls() -> None:
    load = Loads()
    batcher = Batcher(load, most=2)

    await asyncio.gather(*(batcher.get("x" * n) for n in range(1, 6)))

    assert [len(call) for call in load.calls] == [2, 2, 1]


async def test_a_failure_reaches_everybody_of_its_call_and_nobody_later() -> None:
    batcher = Batcher(Loads())

    results = await asyncio.gather(batcher.get("a"), batcher.get("broken"), return_exceptions=True)

    assert [type(result) for result in results] == [Unavailable, Unavailable]
    assert await batcher.get("a") == 1


async def test_one_callers_cancellation_leaves_the_others_their_answer() -> None:
    batcher = Batcher(Loads())
    first, second = (asyncio.create_task(batcher.get("a")) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()

    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_while_calls_are_under_way_look_ups_gather_for_the_next_one() -> None:
    gate = asyncio.Event()
    calls: list[list[str]] = []

    async def load(keys: Sequence[str]) -> dict[str, int]:
        calls.append(list(keys))
        await gate.wait()
        return {key: len(key) for key in keys}

    batcher = Batcher(load, at_once=1)
    asked = [asyncio.create_task(batcher.get("a"))]
    for key in ("bb", "ccc", "dddd"):
        await asyncio.sleep(0.001)  # turns of the loop, so that none shares the call before it
        asked.append(asyncio.create_task(batcher.get(key)))
    await asyncio.sleep(0.001)
    gate.set()

    assert await asyncio.gather(*asked) == [1, 2, 3, 4]
    assert calls == [["a"], ["bb", "ccc", "dddd"]]


async def test_keys_that_are_asked_for_together_stay_in_one_call() -> None:
    load = Loads()
    batcher = Batcher(load, most=3)

    found = await asyncio.gather(batcher.get_all(["a", "bb"]), batcher.get_all(["ccc", "unknown"]))

    assert load.calls == [["a", "bb"], ["ccc", "unknown"]]
    assert list(found) == [{"a": 1, "bb": 2}, {"ccc": 3}]


async def test_after_a_failure_those_that_waited_are_asked_for() -> None:
    load = Loads()
    batcher = Batcher(load, at_once=1)
    broken = asyncio.create_task(batcher.get("broken"))
    await load.begun.wait()

    assert await batcher.get("a") == 1
    with pytest.raises(Unavailable):
        await broken


async def test_what_is_refused_fails_alone() -> None:
    load = Loads()
    batcher = Batcher(load)

    results = await asyncio.gather(batcher.get("a"), batcher.get("refused"), batcher.get("bb"), return_exceptions=True)

    assert [results[0], type(results[1]), results[2]] == [1, ValueError, 2]
    assert load.calls == [["a", "refused", "bb"], ["a"], ["refused"], ["bb"]]


async def test_a_caller_that_is_cancelled_while_it_waits_is_not_asked_for() -> None:
    load = Loads()
    batcher = Batcher(load, at_once=1)
    first = asyncio.create_task(batcher.get("a"))
    await load.begun.wait()
    waiting = [asyncio.create_task(batcher.get(key)) for key in ("bb", "ccc")]
    await asyncio.sleep(0)

    waiting[0].cancel()

    assert (await first, await waiting[1]) == (1, 3)
    assert load.calls == [["a"], ["ccc"]]


async def test_nothing_is_asked_for_no_keys() -> None:
    load = Loads()

    assert await Batcher(load).get_all(()) == {}
    assert load.calls == []


async def test_one_who_waits_briefly_is_told_so_and_shortens_nobody_else_s_wait() -> None:
    answered, seen = asyncio.Event(), []

    async def load(keys: Sequence[str]) -> dict[str, int]:
        seen.append(PATIENCE.get())
        await answered.wait()
        return dict.fromkeys(keys, 1)

    async def hasty(key: str) -> int | None:
        PATIENCE.set(0.01)
        return await batcher.get(key)

    batcher = Batcher(load, at_once=1)
    tasks = [asyncio.create_task(each) for each in (hasty("a"), batcher.get("b"))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    waiting = asyncio.create_task(hasty("c"))  # the only place is taken
    await asyncio.wait([waiting])
    answered.set()
    ends = await asyncio.gather(*tasks, waiting, return_exceptions=True)

    assert [str(end) for end in ends] == ["the store gave no answer within 0.01 s", "1", str(ends[0])]
    assert seen == [math.inf]
