import pytest

from shared.contracts import LogPosition
from shared.log.headers import (
    PLACE_HEADER,
    REDRIVE_HEADER,
    SKEW_MS,
    header,
    position_from,
    position_header,
    position_of,
    redriven,
    redrives_of,
)
from tests.builders import a_record

FIRST = LogPosition(partition=1, offset=7, time=99)


def test_a_position_survives_its_header() -> None:
    assert position_from(position_header(FIRST)) == FIRST
    assert position_of(a_record(headers=[(PLACE_HEADER, b"1/7/99")])) == FIRST


@pytest.mark.parametrize("text", ["", "1/7", "1/7/99/3", "1/7/-9", "1/7/²", "1/7/" + "9" * 20])
def test_a_header_that_is_no_position_counts_for_none(text: str) -> None:
    record = a_record(headers=[(PLACE_HEADER, text.encode())])

    assert position_of(record) == LogPosition(partition=3, offset=41, time=1_700)


def test_a_first_position_later_than_the_record_is_not_believed() -> None:
    times = [1_700 + SKEW_MS, 1_700 + SKEW_MS + 1]
    records = [a_record(headers=[(PLACE_HEADER, f"1/7/{time}".encode())]) for time in times]

    assert [position_of(record).offset for record in records] == [7, 41]


@pytest.mark.parametrize(("text", "times"), [(b"2", 2), (b"", 0), (b"-1", 0), (b"1" * 10, 0), (b"\xff", 0)])
def test_redrives_are_counted_from_a_number_alone(text: bytes, times: int) -> None:
    record = a_record(headers=[(REDRIVE_HEADER, text)])

    assert redrives_of(record) == times
    assert redriven(record) == ({REDRIVE_HEADER: str(times)} if times else {})


def test_a_missing_or_empty_header_is_none() -> None:
    assert header(a_record(headers=[("a", None)]), "a") is None
    assert header(a_record(), "a") is None
