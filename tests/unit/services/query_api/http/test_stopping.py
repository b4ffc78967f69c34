"""A stop: not ready first, then no answer goes on."""

import asyncio

import pytest

from services.query_api.http.stopping import Stopping
from shared.errors import Unavailable


async def checks() -> dict[str, str | None]:
    return {"store": None}


async def test_it_is_ready_until_the_stop_begins() -> None:
    stopping = Stopping()
    troubles = stopping.of(checks)
    before = await troubles()

    stopping.begin()

    assert before == {"store": None}
    assert await troubles() == {"store": None, "server": "it is stopping"}


async def test_what_is_waited_for_ends_by_an_error_and_so_does_what_comes_later() -> None:
    stopping = Stopping()
    forever = asyncio.Event()
    stopping.end(answers_s=0.01)

    for _ in range(2):
        with pytest.raises(Unavailable, match="the server is stopping"):
            await stopping.limited(forever.wait())


async def test_what_ends_in_time_is_left_alone() -> None:
    stopping = Stopping()
    stopping.end(answers_s=60)

    assert await stopping.limited(asyncio.sleep(0, "done")) == "done"


async def test_what_takes_too_long_is_no_stop() -> None:
    with pytest.raises(TimeoutError):
        await Stopping().limited(asyncio.Event().wait(), 0.01)
