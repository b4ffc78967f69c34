import asyncio

from services.query_api.ingest.submissions import StatusWaiters
from shared.contracts import LogPosition, StatusNotice

PLACE = LogPosition(partition=0, offset=5, time=5000)
HANG = 30.0  # a guard: nothing here waits for it


async def test_a_state_that_is_there_needs_no_notice() -> None:
    async def look() -> str:
        return "done"

    assert await StatusWaiters().until("d", look, HANG) == "done"


async def test_a_notice_makes_the_waiter_look_again() -> None:
    notices, looks, state = StatusWaiters(look_again_s=HANG), asyncio.Event(), {"d": ""}

    async def look() -> str | None:
        looks.set()
        return state["d"] or None

    waiter = asyncio.create_task(notices.until("d", look, HANG))
    await looks.wait()
    state["d"] = "done"
    notices.wake("another")
    notices.wake("d")

    assert await waiter == "done"


async def test_a_notice_during_the_look_is_not_lost() -> None:
    notices, answers = StatusWaiters(look_again_s=HANG), iter([None, "done"])

    async def look() -> str | None:
        answer = next(answers)
        notices.wake("d")
        return answer

    assert await notices.until("d", look, HANG) == "done"


async def test_a_missed_notice_is_made_up_for() -> None:
    notices, answers = StatusWaiters(look_again_s=0.001), iter([None, None, "done"])

    async def look() -> str | None:
        return next(answers)

    assert await notices.until("d", look, HANG) == "done"


async def test_a_look_that_hangs_ends_with_the_time() -> None:
    async def look() -> str:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    assert await StatusWaiters().until("d", look, 0.01) is None


async def test_patience_ends() -> None:
    notices = StatusWaiters()

    async def look() -> str | None:
        return None

    assert await notices.until("d", look, 0.01) is None
    assert await notices.until("d", look, 0) is None


async def test_closing_ends_every_wait() -> None:
    notices, looks = StatusWaiters(look_again_s=HANG), asyncio.Event()

    async def look() -> str | None:
        looks.set()
        return None

    waiter = asyncio.create_task(notices.until("d", look, HANG))
    await looks.wait()
    notices.close()

    assert await waiter is None
    assert await notices.until("d", look, HANG) is None


def test_notices_are_kept_from_the_last_gap_on() -> None:
    waiters = StatusWaiters()
    notice = StatusNotice(document_id="d", tenant="t", version=1, place=PLACE, status="created")
    for offset in (5, 6):
        waiters.heard(offset, notice)

    assert (waiters.after(4), waiters.after(8)) == (None, None)
    assert [[offset for offset, _ in waiters.after(cursor) or ()] for cursor in (5, 6, 7)] == [[5, 6], [6], []]

    waiters.heard(9, notice)  # two were not heard

    assert waiters.after(7) is None
    assert [offset for offset, _ in waiters.after(9) or ()] == [9]
