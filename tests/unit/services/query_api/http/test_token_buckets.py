"""What a name may use in a minute."""

import pytest

from services.query_api.http.problems import Problem
from services.query_api.http.token_buckets import AnswerRate, TokenBuckets
from tests.fakes.clock import SetClock


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_minute_s_tokens_are_there_at_once_and_come_back_evenly(clock: Clock) -> None:
    buckets = TokenBuckets(6, clock)
    buckets.spend("a", 6)

    assert buckets.wait_s("a") == pytest.approx(10)
    clock.now += 10
    assert buckets.wait_s("a") == 0
    clock.now += 1000
    buckets.spend("a", 6)
    assert buckets.wait_s("a") == pytest.approx(10)  # never more than a minute's


def test_a_debt_is_paid_first_and_others_have_their_own(clock: Clock) -> None:
    buckets = TokenBuckets(60, clock)
    buckets.spend("a", 160)

    assert buckets.wait_s("a") == pytest.approx(101)
    assert buckets.wait_s("b") == 0


def test_without_a_rate_there_is_no_limit(clock: Clock) -> None:
    buckets = TokenBuckets(0, clock)
    buckets.spend("a", 10**9)

    assert buckets.wait_s("a") == 0


@pytest.mark.feature(253)
def test_a_key_gets_its_answers_and_then_is_told_when_to_come_again() -> None:
    clock = SetClock()
    rate = AnswerRate(3, clock)

    for _ in range(3):
        rate.take("mine")
    with pytest.raises(Problem) as refused:
        rate.take("mine")
    rate.take("yours")

    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "20")
    assert "SLUICE_CHAT_RATE" in refused.value.sentence

    clock.now += 19.5
    with pytest.raises(Problem):
        rate.take("mine")
    clock.now += 0.5
    rate.take("mine")


def test_without_a_rate_nobody_is_refused() -> None:
    rate = AnswerRate(0)

    for _ in range(1000):
        rate.take("mine")
