"""What follows from the log's records."""

from typing import Any

import pytest
from aiokafka import ConsumerRecord

from services.operator_cli.verify.log_replay import LogReplay
from shared.contracts import DeadLetter, DocumentExtracted, DocumentSubmitted, LogPosition, Message, encode, truth_key
from shared.log import Record
from shared.log.dead_letters import key_of
from shared.log.headers import PLACE_HEADER, position_header
from shared.topics import DAY, DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic
from tests.unit.services.operator_cli.verify.builders import NAME, PLACE, a_version

GENERATION = "cafe"
OTHER = LogPosition(partition=1, offset=1, time=1)


def a_record(topic: str, offset: int, key: bytes | None, value: Message | bytes | None, **more: Any) -> Record:
    given = {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": 1000 + offset,
        "timestamp_type": 1,
        "key": key,
        "value": encode(value) if isinstance(value, Message) else value,
        "checksum": None,
        "serialized_key_size": 0,
        "serialized_value_size": 0,
        "headers": (),
    }
    return ConsumerRecord(**(given | more))


def extracted(version: int, offset: int, *, gone: bool = False) -> Record:
    value = None if gone else DocumentExtracted(document=a_version(version=version), text="x")
    return a_record(EXTRACTED, offset, truth_key(NAME, version), value)


def a_letter(stage: str, **fields: Any) -> DeadLetter:
    topic = {"ingest": SUBMITTED, "chunk": EXTRACTED, "embed": chunks_topic(GENERATION)}[stage]
    given: dict[str, Any] = {
        "stage": stage,
        "code": "empty",
        "sentence": "nothing",
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "time": 1001,
        "place": PLACE,
    }
    return DeadLetter(**(given | fields))


def written(letter: DeadLetter, *, settled: bool = False) -> Record:
    return a_record(DEAD_LETTERS, 0, key_of(letter), None if settled else letter)


def told(*records: Record) -> LogReplay:
    truth = LogReplay(GENERATION)
    for record in records:
        truth.see(record)
    return truth


def answers(truth: LogReplay) -> list[int]:
    return list(truth.candidates(NAME))


def test_the_newest_version_with_a_value_answers() -> None:
    assert answers(told(extracted(2, 0), extracted(1, 1))) == [2]
    assert answers(told(extracted(1, 0), extracted(2, 1), extracted(2, 2, gone=True))) == [1]


@pytest.mark.parametrize("stage", ["chunk", "embed"])
def test_a_version_that_was_set_aside_leaves_the_one_before(stage: str) -> None:
    letter = a_letter(stage, document_id=NAME, version=2)

    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter))) == [2, 1]
    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter), extracted(2, 5))) == [2]
    # Dropped, it is still no version that could answer.
    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter), written(letter, settled=True))) == [2, 1]


def test_an_event_that_nobody_can_read_is_known_by_where_it_stands() -> None:
    broken = a_record(EXTRACTED, 1, truth_key(NAME, 2), b"{")

    assert answers(told(extracted(1, 0), broken, written(a_letter("chunk")))) == [2, 1]


def test_another_generations_failure_is_not_this_ones() -> None:
    letter = a_letter("embed", topic=chunks_topic("beef"), document_id=NAME, version=2)

    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter))) == [2]


def test_a_submission_is_known_by_its_first_place_and_the_newest_one_counts() -> None:
    body = DocumentSubmitted(tenant="t", source="s", path="p", text="x")
    first = a_record(SUBMITTED, 4, b"foreign", body)
    again = a_record(
        SUBMITTED, 9, NAME.encode(), body, partition=5, headers=((PLACE_HEADER, position_header(OTHER).encode()),)
    )
    truth = told(first, again)

    assert truth.documents[NAME].submitted == LogPosition(partition=0, offset=4, time=1004)


def test_a_null_deletes_what_its_headers_name_and_else_nothing() -> None:
    named = a_record(SUBMITTED, 0, b"k", None, headers=(("tenant", b"t"), ("source", b"s"), ("path", b"p")))
    truth = told(named, a_record(SUBMITTED, 1, b"k", None), a_record(SUBMITTED, 2, b"k", b"{not json"))

    assert truth.documents[NAME].submitted == LogPosition(partition=0, offset=0, time=1000)
    assert set(truth.unread) == {(0, 1), (0, 2)}


def test_a_letter_is_remembered_by_its_key_and_after_a_day_nobody_can_know() -> None:
    letter = a_letter("ingest")
    truth = told(written(letter, settled=True))

    assert truth.lettered(PLACE, since=0, now=1)
    assert not truth.lettered(OTHER, since=0, now=DAY)
    assert truth.lettered(OTHER, since=0, now=DAY + 1)
    assert truth.open == {}
    assert len(told(written(letter)).open) == 1


def test_what_no_worker_writes_is_odd() -> None:
    truth = told(a_record(EXTRACTED, 0, b"nonsense", b"{}"), a_record(DEAD_LETTERS, 1, b"x", b"{}"))

    assert len(truth.oddities) == 2
    assert "b'nonsense'" in truth.oddities[0]


def test_each_record_is_about_a_document() -> None:
    truth = LogReplay(GENERATION)

    assert truth.see(extracted(1, 0)) == NAME
    assert truth.see(a_record(chunks_topic(GENERATION), 0, NAME.encode(), b"{}")) == NAME
    assert truth.see(written(a_letter("chunk", document_id=NAME, version=1))) == NAME
