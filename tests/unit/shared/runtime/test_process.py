import asyncio
from contextlib import AsyncExitStack

import pytest

from shared.errors import Unavailable
from shared.runtime.process import repeat


@pytest.mark.parametrize("error", [Unavailable("the log is away"), RuntimeError("a bug")])
async def test_what_is_repeated_goes_on_after_an_error(error: Exception) -> None:
    calls, again = 0, asyncio.Event()

    async def act() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error
        again.set()

    async with AsyncExitStack() as stack:
        repeat(stack, act, 0.001, "waits", generation="g")
        async with asyncio.timeout(10):
            await again.wait()
