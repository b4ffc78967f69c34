from aiokafka import TopicPartition

from shared.log.retention_risk import overdue

ONE, TWO, NEW = (TopicPartition("events", number) for number in range(3))


def test_only_what_lies_below_the_first_young_record_is_overdue() -> None:
    young = {ONE: 10, TWO: 10, NEW: 0}

    assert overdue({ONE: 4, TWO: 10, NEW: 0}, young) == {ONE: 6}
    assert overdue({ONE: 12, TWO: 12, NEW: 3}, young) == {}


def test_a_partition_that_only_one_answer_knows_waits_for_the_next_look() -> None:
    assert overdue({ONE: 4, NEW: 4}, {ONE: 10}) == {ONE: 6}
    assert overdue({ONE: 4}, {ONE: 10, NEW: 9}) == {ONE: 6}
