"""What a name may use in a minute."""

import pytest

from services.query_api.http.token_buckets import TokenBuckets


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
