"""What a ledger entry remembers of a tenant's own topic."""

from typing import Any

import pytest

from shared.contracts import Forwarded, LogPosition
from shared.state.ledger import with_forwarded
from tests.builders import an_entry


def at(partition: int, offset: int, time: int) -> LogPosition:
    return LogPosition(partition=partition, offset=offset, time=time)


def source(offset: int, time: int, *, partition: int = 0, topic: str = "acme.documents") -> Forwarded:
    return Forwarded(topic=topic, place=at(partition, offset, time))


HERE = at(3, 70, 9_000)  # of the submission that is asked about


@pytest.mark.parametrize(
    ("asked", "repeated"),
    [
        (source(5, 500), True),  # the same record
        (source(4, 400), True),  # an older one
        (source(6, 600), False),
        (source(6, 500), False),  # in the same millisecond
        (source(0, 900), False),  # the topic was created again
        (source(5, 500, partition=1), False),
        (source(5, 500, topic="other"), False),
        (None, False),
    ],
)
def test_a_record_that_came_before_is_a_repetition(asked: Forwarded | None, repeated: bool) -> None:
    entry = with_forwarded(an_entry("d"), source(5, 500))

    assert entry.has_forwarded(asked, HERE) is repeated


def test_the_first_submission_of_a_record_is_none_however_often_it_is_read() -> None:
    entry: Any = with_forwarded(an_entry("d"), source(5, 500))

    assert not entry.has_forwarded(source(5, 500), entry.last.place)
    assert not entry.has_forwarded(source(5, 500), entry.accepted.place)


def test_one_record_is_remembered_for_each_partition() -> None:
    entry = an_entry("d")
    for each in (source(5, 500), source(2, 200), source(1, 900, partition=1), source(7, 700), source(0, 950)):
        entry = with_forwarded(entry, each)

    assert entry.forwarded == (source(1, 900, partition=1), source(0, 950))
    assert with_forwarded(entry, None) is entry
