import pytest
from aiokafka import TopicPartition

from shared.log.retention_risk import overdue, shown

ONE, TWO, NEW = (TopicPartition("events", number) for number in range(3))


def test_only_what_lies_below_the_first_young_record_is_overdue() -> None:
    young = {ONE: 10, TWO: 10, NEW: 0}

    assert overdue({ONE: 4, TWO: 10, NEW: 0}, young) == {ONE: 6}
    assert overdue({ONE: 12, TWO: 12, NEW: 3}, young) == {}


def test_a_partition_that_only_one_answer_knows_waits_for_the_next_look() -> None:
    assert overdue({ONE: 0, TWO: None}, {ONE: 1, NEW: 5}) == {ONE: 1}


@pytest.mark.parametrize(
    ("ms", "says"),
    [(604_800_000, "7 days"), (129_600_000, "36 hours"), (90_000, "90 s"), (120_000, "2 minutes"), (1500, "1500 ms")],
)
def test_a_time_is_shown_in_its_largest_whole_unit(ms: int, says: str) -> None:
    assert shown(ms) == says
