import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.embedder import Vector
from shared.embedder.gather import FIRST, MOST, TARGET_S, Ask, Gather, Pace
from shared.errors import Rejected, Unavailable


def vector(text: str) -> Vector:
    return np.array([len(text)], dtype=np.float32)


class Calls:
    """What answers; each call waits until it is let go."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.go = asyncio.Event()

    async def __call__(self, asks: Sequence[Ask]) -> None:
        self.texts.append([ask.text for ask in asks])
        self.begun.put_nowait(len(asks))
        await self.go.wait()
        for ask in asks:
            if ask.text == "away":
                raise Unavailable("the server is away")
            if ask.text == "bad":
                ask.fail(Rejected("a bad text"))
            ask.give(vector(ask.text))


def pace(texts: int) -> Pace:
    set_ = Pace()
    set_.texts = texts
    return set_


async def test_small_documents_share_calls_and_each_gets_its_own_in_order() -> None:
    calls = Calls()
    gather = Gather(calls, pace(4), calls=1)
    calls.go.set()

    found = await asyncio.gather(*(gather.vectors([f"{n}", f"{n}" * 2, f"{n}" * 3]) for n in range(4)))

    assert [[int(each[0]) for each in vectors] for vectors in found] == [[1, 2, 3]] * 4
    assert [len(texts) for texts in calls.texts] == [4, 4, 4]
    assert [text for texts in calls.texts for text in texts][:4] == ["0", "00", "000", "1"]


async def test_no_more_calls_than_agreed_are_under_way_and_none_waits_for_company() -> None:
    calls = Calls()
    gather = Gather(calls, pace(2), calls=2)

    waiting = [asyncio.create_task(gather.vectors([f"{n}"])) for n in range(5)]
    begun = [await calls.begun.get() for _ in range(2)]

    assert begun == [2, 2]
    assert calls.begun.empty()
    calls.go.set()
    await asyncio.gather(*waiting)
    assert [len(texts) for texts in calls.texts] == [2, 2, 1]


async def test_a_caller_of_many_texts_holds_up_no_other_one() -> None:
    calls = Calls()
    gather = Gather(calls, pace(FIRST), calls=1)

    many = asyncio.create_task(gather.vectors([f"many {n}" for n in range(100)]))
    await calls.begun.get()
    others = [asyncio.create_task(gather.vectors([f"other {n}"])) for n in range(3)]
    calls.go.set()
    await asyncio.gather(many, *others)

    before = [text for texts in calls.texts for text in texts]
    assert [before.index(f"other {n}") for n in range(3)] == [2 * FIRST, 2 * FIRST + 1, 2 * FIRST + 2]
    assert [text for text in before if text.startswith("many")] == [f"many {n}" for n in range(100)]


async def test_callers_of_one_flow_share_its_turns() -> None:
    calls = Calls()
    gather = Gather(calls, pace(FIRST), calls=1)

    lists = [asyncio.create_task(gather.vectors([f"many {n}"] * 3 * FIRST, "a tenant")) for n in range(8)]
    await calls.begun.get()
    other = asyncio.create_task(gather.vectors(["other"]))
    calls.go.set()
    await asyncio.gather(*lists, other)

    assert [text for texts in calls.texts for text in texts].index("other") == 2 * FIRST


async def test_what_a_caller_that_left_still_asked_for_is_not_sent() -> None:
    calls = Calls()
    gather = Gather(calls, pace(1), calls=1)
    first, left, last = (asyncio.create_task(gather.vectors([text])) for text in ("first", "left", "last"))
    await calls.begun.get()

    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    calls.go.set()

    await asyncio.gather(first, last)
    assert calls.texts == [["first"], ["last"]]


async def test_a_rejected_text_is_its_callers_alone_and_ends_the_rest_of_it() -> None:
    calls = Calls()
    gather = Gather(calls, pace(2), calls=1)
    calls.go.set()

    bad, good = await asyncio.gather(
        gather.vectors(["bad", "x", "never"]), gather.vectors(["yy"]), return_exceptions=True
    )

    assert isinstance(bad, Rejected)
    assert not isinstance(good, BaseException)
    assert [int(each[0]) for each in good] == [2]
    assert ["never"] not in calls.texts


async def test_what_a_call_raises_all_of_its_callers_get_and_no_others() -> None:
    calls = Calls()
    gather = Gather(calls, pace(2), calls=1)
    calls.go.set()

    results = await asyncio.gather(*(gather.vectors([text]) for text in ("away", "a", "b")), return_exceptions=True)

    assert [isinstance(result, Unavailable) for result in results] == [True, True, False]


async def test_closing_gives_up_calls_and_cancels_who_waits() -> None:
    calls = Calls()
    gather = Gather(calls, pace(1), calls=1)
    waiting = [asyncio.create_task(gather.vectors([text])) for text in ("a", "b")]
    await calls.begun.get()

    await gather.close()

    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2


def test_the_pace_rises_while_calls_are_quick_and_falls_to_what_takes_a_second() -> None:
    pace = Pace()

    for expected in (16, 32, 64, 64):
        pace.took(pace.texts, 0.01)
        assert pace.texts == expected
    pace.took(64, 4 * TARGET_S)
    assert pace.texts == 32
    for _ in range(5):
        pace.took(pace.texts, pace.texts * TARGET_S / 10)
    assert pace.texts == 10


def test_a_call_that_was_not_full_never_raises_the_pace() -> None:
    pace = Pace()

    pace.took(FIRST - 1, 0.001)
    assert pace.texts == FIRST
    pace.took(1, 10 * TARGET_S)

    assert pace.texts == FIRST // 2


@given(st.lists(st.none() | st.tuples(st.integers(1, MOST), st.floats(0, 1e6))))
def test_the_pace_is_never_less_than_one_text_nor_more_than_most(calls: list[tuple[int, float] | None]) -> None:
    pace = Pace()

    for call in calls:
        if call is None:
            pace.failed()
            assert pace.texts <= FIRST
        else:
            pace.took(*call)

        assert 1 <= pace.texts <= MOST


async def test_many_documents_of_a_tenant_have_one_turn_and_share_it() -> None:
    calls = Calls()
    gather = Gather(calls, pace(FIRST), calls=1)

    first = asyncio.create_task(gather.vectors(["first"]))
    await calls.begun.get()
    many = [
        asyncio.create_task(gather.vectors([f"{name}{n}" for n in range(3 * FIRST)], "many")) for name in "abcdefgh"
    ]
    small = asyncio.create_task(gather.vectors(["small"], "many"))
    await asyncio.sleep(0)
    other = asyncio.create_task(gather.vectors([f"other{n}" for n in range(2 * FIRST)], "other"))
    calls.go.set()
    await asyncio.gather(first, *many, small, other)

    asked = [text for texts in calls.texts for text in texts]
    assert asked.index(f"other{2 * FIRST - 1}") < 1 + 4 * FIRST
    assert asked.index("small") < 1 + 11 * FIRST  # behind one turn of each document of its tenant, and the other's


async def test_a_tenants_turn_holds_as_many_texts_of_notes_as_of_a_document() -> None:
    calls = Calls()
    gather = Gather(calls, pace(FIRST), calls=1)

    long = asyncio.create_task(gather.vectors([f"long {n}" for n in range(10 * FIRST)], "one"))
    await calls.begun.get()
    notes = [asyncio.create_task(gather.vectors([f"note {n}"], "other")) for n in range(FIRST)]
    calls.go.set()
    await asyncio.gather(long, *notes)

    sent = [text for texts in calls.texts[1:] for text in texts]
    assert sum(text.startswith("note") for text in sent[: 2 * FIRST]) == FIRST
