"""A service that keeps failing is left alone, and tried again."""

import pytest

from services.query_api.http.circuit_breaker import MOST_FAILURES, CircuitBreaker
from shared.errors import Rejected, Unavailable
from shared.state.rebuild_gate import CODE

PAUSE_S = 5.0


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def a_breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("the store", pause_s=PAUSE_S, now=clock)


def fail(breaker: CircuitBreaker, times: int = 1, *, code: str = "unavailable") -> None:
    for _ in range(times):
        with pytest.raises(Unavailable, match="it is away"), breaker.guarded():
            raise Unavailable("it is away", code)


@pytest.mark.feature(208)
def test_repeated_failures_open_it_and_calls_are_refused_at_once() -> None:
    breaker = a_breaker(Clock())

    fail(breaker, MOST_FAILURES)

    with pytest.raises(Unavailable, match="times in a row") as refused, breaker.guarded():
        pytest.fail("the store was called")
    assert refused.value.sentence == (
        "the store failed 5 times in a row, and is tried again within 5 s; the last failure: it is away"
    )


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = a_breaker(Clock())

    fail(breaker, MOST_FAILURES - 1)
    with breaker.guarded():
        pass
    fail(breaker, MOST_FAILURES - 1)

    assert not breaker.is_open


@pytest.mark.feature(208)
def test_after_the_pause_one_call_tries_the_service_and_its_success_closes_the_breaker() -> None:
    clock = Clock()
    breaker = a_breaker(clock)
    fail(breaker, MOST_FAILURES)
    clock.now_s += PAUSE_S

    with breaker.guarded():
        with pytest.raises(Unavailable, match="times in a row"), breaker.guarded():
            pytest.fail("a second call came along with the trial")
        assert breaker.is_open

    assert not breaker.is_open


def test_a_trial_that_fails_keeps_it_open_for_another_pause() -> None:
    clock = Clock()
    breaker = a_breaker(clock)
    fail(breaker, MOST_FAILURES)
    clock.now_s += PAUSE_S

    fail(breaker)

    with pytest.raises(Unavailable, match="times in a row"), breaker.guarded():
        pytest.fail("the service was called")
    clock.now_s += PAUSE_S
    with breaker.guarded():
        pass


def test_what_the_caller_did_wrong_and_an_index_that_is_rebuilt_do_not_count() -> None:
    breaker = a_breaker(Clock())

    fail(breaker, 2 * MOST_FAILURES, code=CODE)
    for _ in range(2 * MOST_FAILURES):
        with pytest.raises(Rejected), breaker.guarded():
            raise Rejected("too long")

    assert not breaker.is_open
