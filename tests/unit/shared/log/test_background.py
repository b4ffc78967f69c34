import asyncio
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from shared.errors import Unavailable
from shared.log.background import repeat


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


async def test_why_it_waits_is_told_once_and_it_is_tried_sooner_then() -> None:
    calls, fourth = 0, asyncio.Event()

    async def act() -> None:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise Unavailable("the log is away")
        fourth.set()

    with capture_logs() as told:
        async with AsyncExitStack() as stack:
            repeat(stack, act, 3600.0, "waits", again_s=0.001, generation="g")
            async with asyncio.timeout(10):
                await fourth.wait()

    assert [(each["event"], each["reason"], each["generation"]) for each in told] == [("waits", "the log is away", "g")]


async def test_a_bug_is_told_once_with_its_loop_and_tried_again_soon() -> None:
    third, count = asyncio.Event(), 0

    async def act() -> None:
        nonlocal count
        count += 1
        if count == 3:
            third.set()
        raise KeyError("damaged")

    with capture_logs() as told:
        async with AsyncExitStack() as stack:
            repeat(stack, act, 3600.0, "waits", again_s=0.001, generation="g")
            async with asyncio.timeout(10):
                await third.wait()

    assert [(each["event"], each["waits"], each["generation"]) for each in told] == [
        ("repeated_call_failed", "waits", "g")
    ]


async def test_what_it_needs_is_closed_only_after_its_end() -> None:
    begun, steps = asyncio.Event(), list[str]()

    async def act() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    async with AsyncExitStack() as stack:
        stack.callback(steps.append, "closed")
        repeat(stack, act, 3600.0)
        await begun.wait()

    assert steps == ["ended", "closed"]


async def test_a_task_within_it_that_was_cancelled_ends_nothing() -> None:
    calls, again = 0, asyncio.Event()

    async def act() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            within = asyncio.create_task(again.wait())
            within.cancel()
            await within
        again.set()

    with capture_logs() as told:
        async with AsyncExitStack() as stack:
            repeat(stack, act, 0.001, "waits")
            async with asyncio.timeout(10):
                await again.wait()

    assert [(each["event"], each["waits"]) for each in told] == [("repeated_call_failed", "waits")]


@pytest.mark.parametrize("error", [None, Unavailable("the log is closed"), RuntimeError("a bug at the end")])
async def test_it_ends_whatever_becomes_of_its_cancellation(error: Exception | None) -> None:
    begun = asyncio.Event()

    async def act() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if error is not None:
                raise error from None

    async with asyncio.timeout(10):
        async with AsyncExitStack() as stack:
            repeat(stack, act, 3600.0)
            await begun.wait()
