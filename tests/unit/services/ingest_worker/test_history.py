"""What the log says of a document, and the ledger entry that follows from it."""

from typing import Any

import msgspec
import pytest
from aiokafka import ConsumerRecord

from services.ingest_worker.history import (
    EndedSubmission,
    History,
    entry_of,
    entry_without_version,
    erased,
)
from shared.contracts import (
    ERASED,
    DeadLetter,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    Given,
    LetterHead,
    LogPosition,
    Message,
    TextReading,
    encode,
    truth_key,
)
from shared.ids import document_id
from shared.log import Record
from shared.log.dead_letters import key_of
from shared.log.headers import PLACE_HEADER, position_header
from shared.state.generations import AsOf
from shared.state.index import Head
from shared.topics import DEAD_LETTERS, EXTRACTED, SUBMITTED, chunks_topic

NAME = document_id("t", "s", "p")
PLACE = LogPosition(partition=3, offset=7, time=1_700_000_000_000)


def at(offset: int) -> LogPosition:
    return LogPosition(partition=0, offset=offset, time=1000 * offset)


VERSION = DocumentVersion(
    document_id=NAME,
    version=5000,
    place=at(5),
    tenant="t",
    source="s",
    path="p",
    outcome="updated",
    raw_hash="r",
    metadata_hash="m",
    updated_at=5000,
)
HEAD = Head(document_id=NAME, version=5000, tenant="t", source="s", path="p", chunk_count=3)


def letter(offset: int, *, stage: str = "ingest", version: int | None = None) -> LetterHead:
    return LetterHead(
        stage=stage,
        code="empty",
        sentence="no text",
        topic="documents.submitted",
        partition=0,
        offset=offset,
        time=1000 * offset,
        place=at(offset),
        document_id=NAME,
        tenant="t",
        source="s",
        path="p",
        version=version,
        last_seen=9000,
    )


def entry(
    *,
    newest: DocumentVersion = VERSION,
    failure: LetterHead | None = None,
    submitted: int | None = None,
    failed: int | None = None,
    settled: bool = False,
    head: Head | None = None,
) -> tuple[str, int, int, int | None]:
    """Return the status, the version it is of, the offset of the newest submission, and how many chunks answer."""
    made = entry_of(
        newest,
        failure,
        submitted=None if submitted is None else EndedSubmission(at(submitted), None),
        failed=None if failed is None else letter(failed),
        settled=settled,
        head=head,
    )
    return made.last.status, made.last.version, made.last.place.offset, made.last.chunk_count


def test_what_a_metadata_change_needs_is_in_the_versions_record_and_so_in_the_entry() -> None:
    said = TextReading(extracted={"document_type": "md"})
    whole = msgspec.structs.replace(VERSION, given=Given(tags=("x",)), reading=said)

    made = entry_of(whole, None, submitted=None, failed=None, settled=False, head=None)

    assert (made.accepted.given, made.accepted.reading) == (Given(tags=("x",)), said)


def test_a_version_ends_again_where_its_points_are_and_is_under_way_where_they_are_not() -> None:
    assert entry() == ("accepted", 5000, 5, None)
    assert entry(head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(head=msgspec.structs.replace(HEAD, version=4000)) == ("accepted", 5000, 5, None)
    assert entry(newest=msgspec.structs.replace(VERSION, outcome="deleted")) == ("deleted", 5000, 5, 0)
    assert entry(failure=letter(5, stage="chunk", version=5000)) == ("failed", 5000, 5, None)


def test_a_submission_that_ended_after_the_version_brought_nothing_new_or_failed() -> None:
    assert entry(submitted=7, head=HEAD) == ("updated", 5000, 7, 3)
    assert entry(submitted=4, head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(failed=7, head=HEAD) == ("failed", 7000, 7, None)
    assert entry(failed=4, head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(submitted=7, failed=7, head=HEAD) == ("failed", 7000, 7, None)
    assert entry(submitted=8, failed=7, head=HEAD) == ("updated", 5000, 8, 3)
    assert entry(submitted=7, settled=True, head=HEAD) == ("failed", 7000, 7, None)


@pytest.mark.parametrize("path", ["p", ""], ids=["deleted", "erased"])
def test_a_document_without_a_version_is_known_by_its_deletion_or_its_failure(path: str) -> None:
    gone = entry_without_version(NAME, EndedSubmission(at(2), ("t", path and "s", path)), None)
    failed = entry_without_version(NAME, EndedSubmission(at(2), None), letter(2))
    unknown = entry_without_version(NAME, EndedSubmission(at(2), None), None)

    assert gone is not None
    assert (gone.last.status, gone.last.version, gone.accepted.raw_hash) == ("deleted", 0, "" if path else ERASED)
    assert failed is not None
    assert (failed.last.status, failed.last.code, failed.accepted.version) == ("failed", "empty", 0)
    assert unknown is None


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
    event = DocumentExtracted(document=msgspec.structs.replace(VERSION, version=version, place=PLACE), text="x")
    return a_record(EXTRACTED, offset, truth_key(NAME, version), None if gone else event)


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


def told(*records: Record) -> History:
    truth = History(GENERATION)
    for record in records:
        truth.see(record)
    return truth


def answers(truth: History, *, settled: bool = True) -> list[int]:
    return list(truth.versions.candidates(NAME, settled=settled))


def test_the_newest_version_with_a_value_answers() -> None:
    assert answers(told(extracted(2, 0), extracted(1, 1))) == [2]
    assert answers(told(extracted(1, 0), extracted(2, 1), extracted(2, 2, gone=True))) == [1]


@pytest.mark.parametrize("stage", ["chunk", "embed"])
def test_a_version_that_was_set_aside_leaves_the_one_before(stage: str) -> None:
    letter = a_letter(stage, document_id=NAME, version=2)

    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter))) == [2, 1]
    assert answers(told(extracted(1, 0), extracted(2, 1), written(letter), extracted(2, 5))) == [2]
    dropped = told(extracted(1, 0), extracted(2, 1), written(letter), written(letter, settled=True))
    assert answers(dropped) == [2, 1]
    assert answers(dropped, settled=False) == [2]


def test_an_event_that_nobody_can_read_is_known_by_where_it_stands() -> None:
    broken = a_record(EXTRACTED, 1, truth_key(NAME, 2), b"{")

    assert answers(told(extracted(1, 0), broken, written(a_letter("chunk")))) == [2, 1]


def test_another_generations_failure_is_not_this_ones() -> None:
    other: dict[str, Any] = {"document_id": NAME, "version": 2, "generation": "beef"}
    letters = a_letter("embed", topic=chunks_topic("beef"), **other), a_letter("chunk", **other)

    assert answers(told(extracted(1, 0), extracted(2, 1), *map(written, letters))) == [2]


def test_a_submission_is_known_by_its_first_place_and_the_newest_one_counts() -> None:
    body = DocumentSubmitted(tenant="t", source="s", path="p", text="x")
    first = a_record(SUBMITTED, 4, b"foreign", body)
    again = a_record(
        SUBMITTED, 9, NAME.encode(), body, partition=5, headers=((PLACE_HEADER, position_header(OTHER).encode()),)
    )
    truth = told(first, again)

    assert truth.newest[NAME].place == LogPosition(partition=0, offset=4, time=1004)


def test_a_null_deletes_what_its_headers_name_and_else_nothing() -> None:
    named = a_record(SUBMITTED, 0, b"k", None, headers=(("tenant", b"t"), ("source", b"s"), ("path", b"p")))
    truth = told(named, a_record(SUBMITTED, 1, b"k", None), a_record(SUBMITTED, 2, b"k", b"{not json"))

    assert truth.newest[NAME].place == LogPosition(partition=0, offset=0, time=1000)
    assert set(truth.unreadable) == {(0, 1), (0, 2)}


def test_a_letter_is_remembered_by_its_key() -> None:
    letter = a_letter("ingest")
    truth = told(written(letter, settled=True))

    assert truth.letters.lettered(PLACE)
    assert truth.letters.settled(PLACE)
    assert not truth.letters.lettered(OTHER)
    assert truth.letters.open == {}
    assert len(told(written(letter)).letters.open) == 1
    assert not told(written(letter)).letters.settled(PLACE)


def test_what_no_worker_writes_is_odd() -> None:
    truth = told(a_record(EXTRACTED, 0, b"nonsense", b"{}"), a_record(DEAD_LETTERS, 1, b"x", b"{}"))

    assert len(truth.letters.oddities) == 1
    assert "b'nonsense'" in truth.versions.oddities[0]


def test_each_record_is_about_a_document() -> None:
    truth = History(GENERATION)

    assert truth.see(extracted(1, 0)) == NAME
    assert truth.see(a_record(chunks_topic(GENERATION), 0, NAME.encode(), b"{}")) == NAME
    assert truth.see(written(a_letter("chunk", document_id=NAME, version=1))) == NAME


def test_a_past_moment_has_what_stood_below_its_offsets_and_nothing_that_was_erased_since() -> None:
    erasure = DocumentExtracted(
        document=msgspec.structs.replace(VERSION, version=9, raw_hash=ERASED, outcome="deleted")
    )
    gone = a_record(EXTRACTED, 7, truth_key(NAME, 9), erasure)
    past = History(GENERATION, AsOf(until={"0": 2}))
    for record in (extracted(1, 0), extracted(2, 1), extracted(3, 2), extracted(2, 3, gone=True)):
        past.see(record)

    assert answers(past) == [2]
    past.see(gone)
    assert answers(past) == [9]
    assert (erased(gone) or VERSION).version == 9
    assert erased(extracted(1, 0)) is None


def test_versions_are_found_by_where_their_records_stand() -> None:
    letter = a_letter("chunk", document_id=NAME, version=2)
    truth = told(extracted(1, 0), extracted(2, 1), written(letter)).versions

    assert truth.newest() == {1: NAME}


def test_a_letter_of_a_lost_generation_counts_for_the_one_in_its_place() -> None:
    letter = a_letter("chunk", document_id=NAME, version=2, generation="lost")
    records = extracted(1, 0), extracted(2, 1), written(letter)
    successor, other = History(GENERATION, before=("lost",)), History(GENERATION)
    for record in records:
        successor.see(record)
        other.see(record)

    assert (answers(successor), answers(other)) == ([2, 1], [2])
