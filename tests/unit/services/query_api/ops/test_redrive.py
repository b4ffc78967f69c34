"""What is sent again for a dead letter: the decision alone."""

from typing import Any

import msgspec
import pytest

from services.query_api.ops.redrive import (
    NothingToRedrive,
    ResendRecord,
    ResendVersion,
    document_of,
    overtaken,
    plan_redrive,
    unsendable,
)
from shared.contracts import DeadLetter, LogPosition, Status
from shared.ids import document_id
from shared.state.ledger import NOWHERE, Entry, Last
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic
from tests.builders import an_entry

NAME = document_id("default", "s", "p")
HERE = LogPosition(partition=1, offset=10, time=1_000)
LATER = LogPosition(partition=1, offset=11, time=1_001)


def a_letter(topic: str = SUBMITTED, **fields: Any) -> DeadLetter:
    known: dict[str, Any] = {
        "stage": "x",
        "code": "bug",
        "sentence": "no",
        "topic": topic,
        "partition": 3,
        "offset": 41,
        "time": 1_200,
        "place": HERE,
        "key": NAME.encode(),
        "document_id": NAME,
        "version": None if topic == SUBMITTED else 1_000,
    }
    return DeadLetter(**(known | fields))


def a_failed(version: int = 1_000, place: LogPosition = HERE) -> Entry:
    return an_entry(NAME, accepted=version, place=place, status="failed")


@pytest.mark.parametrize("entry", [None, a_failed(), a_failed(version=0, place=NOWHERE)])
def test_a_submission_goes_back_under_its_document(entry: Entry | None) -> None:
    assert plan_redrive(a_letter(key=b"foreign"), entry) == ResendRecord(SUBMITTED, NAME.encode(), NAME.encode())


def test_a_submission_that_a_newer_one_has_overtaken_is_not_sent() -> None:
    assert plan_redrive(a_letter(), a_failed(1_001, LATER)) == NothingToRedrive("version 1001 was accepted since")


def test_a_submission_that_failed_beside_a_newer_failure_is_sent() -> None:
    entry = msgspec.structs.replace(a_failed(), last=Last(version=1_001, place=LATER, status="failed", at=0))

    assert isinstance(plan_redrive(a_letter(), entry), ResendRecord)


@pytest.mark.parametrize("key", [b"foreign", b"\xff", None])
def test_a_submission_that_could_not_be_read_goes_back_under_its_own_key(key: bytes | None) -> None:
    letter = a_letter(key=key, document_id=None)

    assert plan_redrive(letter, None) == ResendRecord(SUBMITTED, key or b"", key or b"")


@pytest.mark.parametrize("topic", [EXTRACTED, chunks_topic("g")])
def test_a_version_that_a_newer_one_has_overtaken_or_whose_document_is_gone_is_not_sent(topic: str) -> None:
    assert plan_redrive(a_letter(topic), a_failed(1_001, LATER)) == NothingToRedrive("version 1001 was accepted since")
    assert plan_redrive(a_letter(topic), None) == NothingToRedrive(f"document {NAME} is gone")


def test_a_version_that_gave_no_chunks_goes_back_as_its_own_record() -> None:
    key = f"{NAME}/1000".encode()

    assert plan_redrive(a_letter(EXTRACTED, key=key), a_failed()) == ResendRecord(EXTRACTED, key, NAME.encode())


def test_a_version_that_could_not_be_embedded_goes_back_as_the_truth_has_it() -> None:
    assert plan_redrive(a_letter(chunks_topic("g")), a_failed()) == ResendVersion(NAME, 1_000, since=1_000)


def test_chunks_that_could_not_be_read_are_made_again_of_the_version_that_stands() -> None:
    letter = a_letter(chunks_topic("g"), document_id=None, version=None)

    assert plan_redrive(letter, a_failed()) == ResendVersion(NAME, 1_000, since=0)


def test_what_names_no_document_goes_where_it_was_or_nowhere() -> None:
    unreadable = {"key": b"\xff", "document_id": None, "version": None}

    assert plan_redrive(a_letter(EXTRACTED, **unreadable), None) == ResendRecord(EXTRACTED, b"\xff", b"\xff")
    assert isinstance(plan_redrive(a_letter(chunks_topic("g"), **unreadable), None), NothingToRedrive)


def test_a_record_s_key_tells_its_document_from_the_second_stage_on() -> None:
    anonymous = {"document_id": None, "version": None}

    assert document_of(a_letter(EXTRACTED, key=f"{NAME}/7".encode(), **anonymous)) == NAME
    assert document_of(a_letter(chunks_topic("g"), **anonymous)) == NAME
    assert document_of(a_letter(SUBMITTED, **anonymous)) is None


CHUNKS = chunks_topic("serving")


@pytest.mark.parametrize(
    ("letter", "status", "settles"),
    [
        (a_letter(tenant="default"), "created", True),
        (a_letter(tenant="default"), "failed", False),
        (a_letter(tenant="default"), "accepted", False),
        (a_letter(tenant="default", place=LATER), "created", False),
        (a_letter(tenant="other"), "created", False),
        (a_letter(CHUNKS, tenant="default", version=1_000), "updated", True),
        (a_letter(CHUNKS, tenant="default", version=1_001), "updated", False),
        (a_letter(chunks_topic("lost"), tenant="default", version=1_000), "updated", True),
        (a_letter(chunks_topic("another"), tenant="default", version=1_000), "updated", False),
        (a_letter(EXTRACTED, tenant="default", version=1_000), "deleted", True),
    ],
)
def test_a_letter_is_overtaken_when_its_document_ended_well_by_a_later_submission(
    letter: DeadLetter, status: Status, *, settles: bool
) -> None:
    entry = an_entry(NAME, accepted=1_001, place=LATER, status=status)

    assert overtaken(letter, entry, CHUNKS, chunks_topic("lost")) == settles


def test_a_record_of_a_tenant_s_own_topic_is_not_sent_again() -> None:
    why = unsendable(a_letter("acme.documents", stage="forward"))

    assert why is not None
    assert why.startswith("records of acme.documents aren't sent again from here")
    assert unsendable(a_letter()) is None
