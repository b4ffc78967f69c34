"""Log positions are totally ordered, on one log and across moves to others: what was sent later is never older."""

from itertools import pairwise
from typing import Any

from aiokafka import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts import LogPosition
from shared.log import Record
from shared.log.headers import PLACE_HEADER, partition_here, position_header, position_of, with_position
from shared.state.ledger import older

PARTITIONS = 3


def a_record(partition: int, offset: int, time: int, *headers: tuple[str, bytes]) -> Record:
    return ConsumerRecord(
        topic="documents.submitted",
        partition=partition,
        offset=offset,
        timestamp=time,
        timestamp_type=1,
        key=b"k",
        value=b"{}",
        checksum=None,
        serialized_key_size=1,
        serialized_value_size=2,
        headers=headers,
    )


@st.composite
def histories(draw: Any) -> list[list[LogPosition]]:
    """Return the positions of the submissions to each log, in the order in which they came.

    A log's partitions have clocks that never go back; the clock of a new log is ahead of all that the log before has.
    """
    floor, logs = 0, []
    for moves in range(draw(st.integers(1, 4))):
        ends, clocks, sent = [draw(st.integers(0, 5))] * PARTITIONS, [floor + 1] * PARTITIONS, []
        for _ in range(draw(st.integers(1, 8))):
            partition = draw(st.integers(0, PARTITIONS - 1))
            clocks[partition] += draw(st.integers(0, 3))
            record = with_position(a_record(partition, ends[partition], clocks[partition]), moves)
            sent.append(position_of(record))
            ends[partition] += 1
        floor = max(clocks)
        logs.append(sent)
    return logs


@given(histories())
def test_positions_are_totally_ordered(logs: list[list[LogPosition]]) -> None:
    every = [place for log in logs for place in log]

    assert len(set(every)) == len(every)
    for a in every:
        for b in every:
            assert older(a, b) + older(b, a) + (a == b) == 1
            for c in every:
                assert older(a, c) or not (older(a, b) and older(b, c))


@given(histories())
def test_a_submission_to_a_later_log_is_newer_than_all_of_the_logs_before(logs: list[list[LogPosition]]) -> None:
    for before, after in pairwise(logs):
        assert all(older(a, b) for a in before for b in after)
    for moves, log in enumerate(logs):
        for place in log:
            homes = [number for number in range(len(logs)) if partition_here(place, number) is not None]
            assert homes == [moves]


@given(histories(), st.integers(1, 4), st.integers(0, 10**6))
def test_a_copy_keeps_its_position_however_often_it_is_moved(
    logs: list[list[LogPosition]], moves: int, offset: int
) -> None:
    first = logs[0][0]
    copy = a_record(0, offset, first.time + 1, (PLACE_HEADER, position_header(first).encode()))

    assert position_of(with_position(copy, moves)) == first
