import asyncio
import time

import pytest

from shared.times import HELD_S, LoopTurns, iso, offset_or_time, parse_iso, seconds_of

HANG_S = 30.0


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:15:30.250Z", "2026-01-31T08:15:30.250", "2026-01-31T09:15:30.250+01:00"]
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert iso(parse_iso(text)) == "2026-01-31T08:15:30.250Z"


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        parse_iso("soon")


async def test_a_long_loop_lets_others_run() -> None:
    done = asyncio.Event()
    turns = LoopTurns()
    asyncio.get_running_loop().call_soon(done.set)

    async with asyncio.timeout(HANG_S):
        while not done.is_set():
            await turns.give()


async def test_of_many_long_loops_one_goes_on_in_each_turn_of_the_loop() -> None:
    iterations, steps, ended = 0, list[int](), asyncio.Event()

    def count() -> None:
        nonlocal iterations
        iterations += 1
        if not ended.is_set():
            asyncio.get_running_loop().call_soon(count)

    async def work() -> None:
        turns = LoopTurns()
        for _ in range(5):
            while time.perf_counter() - turns._since <= HELD_S:
                pass
            await turns.give()
            steps.append(iterations)

    workers = [asyncio.create_task(work()) for _ in range(5)]
    left = asyncio.create_task(work())
    await asyncio.sleep(0)
    left.cancel()
    count()
    async with asyncio.timeout(HANG_S):
        await asyncio.gather(*workers)
    ended.set()

    assert len(steps) == len(set(steps)) == 25


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(7, {"offset": 7}), ("012", {"offset": 12}), ("2026-01-31T08:15:30.250Z", {"time": 1769847330250})],
)
def test_digits_are_an_offset_and_anything_else_a_time(given: int | str, wanted: dict[str, int]) -> None:
    assert offset_or_time(given) == wanted


@pytest.mark.parametrize("given", [-1, "soon", ""])
def test_what_is_neither_an_offset_nor_a_time_is_refused(given: int | str) -> None:
    with pytest.raises(ValueError, match=r"."):
        offset_or_time(given)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("-1", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("9" * 10, None),
    ],
)
def test_a_pause_that_a_server_asks_for_is_a_number_or_a_date(header: str, seconds: float | None) -> None:
    assert seconds_of(header) == seconds
