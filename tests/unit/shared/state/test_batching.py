import asyncio
from collections.abc import Sequence

import pytest

from shared.errors import Unavailable
from shared.state.batching import Batcher


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
