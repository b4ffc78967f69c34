import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts import LogPosition
from shared.errors import Rejected
from shared.log.headers import (
    FORWARDED_HEADER,
    HASH_HEADER,
    PLACE_HEADER,
    REDRIVE_HEADER,
    SKEW_MS,
    check_intact,
    forwarded_from,
    forwarded_header,
    header,
    partition_here,
    position_from,
    position_header,
    position_of,
    redriven,
    redrives_of,
    sealed,
    text_headers,
    with_position,
)
from tests.builders import a_record

FIRST = LogPosition(partition=1, offset=7, time=99)


def test_a_position_survives_its_header() -> None:
    assert position_from(position_header(FIRST)) == FIRST
    assert position_of(a_record(headers=[(PLACE_HEADER, b"1/7/99")])) == FIRST


@pytest.mark.parametrize(
    "text",
    ["", "1/7", "1/7/99/3", "1/7/-9", "1/7/²", "1/7/" + "9" * 20, "9" * 19 + "/7/99", f"1/{2**53}/99", f"1/7/{2**53}"],
)
def test_a_header_that_is_no_position_counts_for_none(text: str) -> None:
    record = a_record(headers=[(PLACE_HEADER, text.encode())])

    assert position_of(record) == LogPosition(partition=3, offset=41, time=1_700)


@pytest.mark.parametrize("place", [f"{2**53}/7/99", f"1/{2**53}/99", f"1/7/{2**53}"])
def test_a_forwarded_position_that_the_ledger_cannot_hold_counts_for_none(place: str) -> None:
    assert forwarded_from(a_record(headers=[(FORWARDED_HEADER, f"t/{place}".encode())])) is None


@given(position=st.from_regex(r"[0-9]{1,20}/[0-9]{1,20}/[0-9]{1,20}", fullmatch=True))
def test_every_position_that_is_read_can_be_written_and_read_again(position: str) -> None:
    place = position_from(position)

    if place is not None:
        assert msgspec.json.decode(msgspec.json.encode(place), type=LogPosition) == place


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


@pytest.mark.parametrize("stated", [[], [(PLACE_HEADER, b"no position")], [(PLACE_HEADER, b"1/7/99999999999999")]])
def test_a_log_that_was_moved_to_numbers_its_partitions_anew(stated: list[tuple[str, bytes]]) -> None:
    read = with_position(a_record(headers=[("a", b"b"), *stated]), 2)

    assert position_of(read) == LogPosition(partition=2_000_003, offset=41, time=1_700)
    assert text_headers(read)["a"] == "b"
    assert len(read.headers) == 2
    assert [partition_here(position_of(read), moves) for moves in range(4)] == [None, None, 3, None]


def test_a_record_with_its_position_and_one_of_a_first_log_stay_as_they_are() -> None:
    copy, native = a_record(headers=[(PLACE_HEADER, b"1/7/99")]), a_record()

    assert with_position(copy, 2) is copy
    assert with_position(native, 0) is native


def test_the_origin_of_a_forwarded_record_names_the_log_as_well() -> None:
    text = forwarded_header(a_record(), 2)
    found = forwarded_from(a_record(headers=[(FORWARDED_HEADER, text.encode())]))

    assert found is not None
    assert found.place.partition == 2_000_003


def headers_of(value: bytes | None, **own: str) -> list[tuple[str, bytes]]:
    return [(name, text.encode()) for name, text in sealed(value, own).items()]


def test_what_was_written_is_intact_and_one_bit_is_noticed() -> None:
    headers = headers_of(b"a value", colour="blue")

    check_intact(a_record(value=b"a value", headers=headers))
    with pytest.raises(Rejected, match="altered after it was written") as told:
        check_intact(a_record(value=b"a vaLue", headers=headers))
    assert told.value.code == "altered"


def test_a_record_that_goes_on_keeps_its_hash() -> None:
    assert sealed(b"another value", {HASH_HEADER: "of the first"}) == {HASH_HEADER: "of the first"}


def test_what_nobody_sealed_is_taken_as_it_is() -> None:
    check_intact(a_record(value=b"a foreign producer's", headers=[]))
    check_intact(a_record(value=None, headers=headers_of(None)))
