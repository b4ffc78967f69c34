import pytest

from services.query_api.http.answer_rate import AnswerRate
from services.query_api.http.problems import Problem
from tests.fakes.clock import SetClock


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
