import asyncio
import threading

import pytest

from services.query_api.http.fair_loop import LoopTurns, beside

HANG_S = 30.0


@pytest.mark.parametrize("large", [False, True])
async def test_only_large_work_leaves_the_thread_of_the_loop(large: bool) -> None:
    assert (await beside(large, threading.current_thread) is not threading.current_thread()) == large


async def test_an_error_of_the_work_reaches_its_caller() -> None:
    with pytest.raises(ValueError, match="wrong"):
        await beside(True, int, "wrong")


async def test_a_long_loop_lets_others_run() -> None:
    done = asyncio.Event()
    turns = LoopTurns()
    asyncio.get_running_loop().call_soon(done.set)

    async with asyncio.timeout(HANG_S):
        while not done.is_set():
            await turns.give()
