"""Which records a replay sends again, and with which key and headers."""

from typing import Any

import pytest

from shared.contracts import (
    DocumentChunked,
    DocumentExtracted,
    DocumentSubmitted,
    Message,
    encode,
    truth_key,
)
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.replay import (
    Replayed,
    ReplayOrder,
    ReplayRecord,
    check_topic,
    replay,
    replay_budget,
    replayed,
)
from shared.topics import EXTRACTED, SUBMITTED
from tests.builders import a_record, a_version
from tests.fakes.log import MemoryLog

NAME = document_id("t", "s", "p")
SENT = DocumentSubmitted(tenant="t", source="s", path="p", text="x")
VERSION = a_version(document_id=NAME)


def a_submission(message: DocumentSubmitted = SENT, **more: Any) -> Record:
    return a_record(encode(message), **more)


def of(topic: str, message: Message) -> Record:
    key = truth_key(NAME, 5) if topic == EXTRACTED else NAME.encode()
    return a_record(encode(message), topic=topic, key=key, headers=[("sluice-redrive", b"2"), ("sluice-hash", b"ab")])


def order(topic: str = SUBMITTED, **only: object) -> ReplayOrder:
    return ReplayOrder(topic=topic, **only)  # type: ignore[arg-type]  # a builder


def test_a_submission_goes_under_its_document_with_its_first_place_and_no_count_of_redrives() -> None:
    own = replayed(order(), a_submission(headers=[("sluice-redrive", b"2"), ("content-type", b"application/json")]))
    moved = replayed(order(), a_submission(headers=[("sluice-place", b"1/2/3")]))

    headers = {"content-type": "application/json", "sluice-place": "3/41/1700"}
    assert own == ReplayRecord(NAME.encode(), NAME.encode(), headers)
    assert moved is not None
    assert moved.headers == {"sluice-place": "1/2/3"}


@pytest.mark.parametrize(
    ("topic", "message"),
    [(EXTRACTED, DocumentExtracted(document=VERSION)), ("chunks.g", DocumentChunked(document=VERSION))],
)
def test_a_record_of_a_later_stage_keeps_its_key(topic: str, message: Message) -> None:
    record = of(topic, message)

    assert replayed(order(topic), record) == ReplayRecord(record.key, NAME.encode(), {"sluice-hash": "ab"})


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ({}, True),
        ({"key": NAME}, True),
        ({"key": "other"}, False),
        ({"source": "s"}, True),
        ({"source": "other"}, False),
        ({"tenant": "t"}, True),
        ({"tenant": "other"}, False),
    ],
)
def test_an_order_chooses_by_document_source_and_tenant(only: dict[str, str], chosen: bool) -> None:
    assert (replayed(order(**only), a_submission()) is not None) is chosen
    later = of(EXTRACTED, DocumentExtracted(document=VERSION))
    assert (replayed(order(EXTRACTED, **only), later) is not None) is chosen


def test_tombstones_stay_and_deletions_by_key_go_again() -> None:
    by_key = a_record(None, key=NAME.encode())

    assert replayed(order(EXTRACTED), a_record(None, topic=EXTRACTED, key=truth_key(NAME, 5))) is None
    assert replayed(order(), by_key) == ReplayRecord(NAME.encode(), NAME.encode(), {"sluice-place": "3/41/1700"})
    assert replayed(order(tenant="t"), by_key) is None, "only the ledger knows whose it is"


def test_what_can_not_be_read_is_not_sent() -> None:
    with pytest.raises(Rejected):
        replayed(order(EXTRACTED), a_record(b"[]", topic=EXTRACTED))


@pytest.mark.parametrize("topic", ["documents.status", "dead.letters", "chunks.", "x"])
def test_only_topics_that_a_stage_reads_can_be_replayed(topic: str) -> None:
    with pytest.raises(Rejected, match=r"can't be replayed; choose documents.submitted, documents.extracted or chunks"):
        check_topic(topic)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_log(documents: int, versions: int) -> MemoryLog:
    """Return a log with several submissions of each document, in turns."""
    log = MemoryLog({SUBMITTED: 2}, skews=(0,))
    for version in range(versions):
        for number in range(documents):
            message = DocumentSubmitted(tenant="t", source="s", path=str(number), text=f"{version}")
            key = document_id("t", "s", str(number)).encode()
            log.append(SUBMITTED, encode(message), key=key, route=key)
    return log


async def pages(log: MemoryLog, records: int) -> list[Replayed]:
    async def publish(topic: str, value: bytes | None, **how: Any) -> Any:
        return log.append(topic, value, **how)

    found = [await replay(log, publish, order(), budget=replay_budget(records, 60.0))]  # type: ignore[arg-type]  # a fake
    while rest := found[-1].rest:
        assert len(found) < 1000, "it never ends"
        found.append(await replay(log, publish, order(), spans=rest, budget=replay_budget(records, 60.0)))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("records", [1, 7, 600, 10_000])
async def test_pages_of_a_replay_send_each_record_once_in_the_order_of_its_document(records: int) -> None:
    documents, versions = 300, 2
    log = a_log(documents, versions) if records > 1 else a_log(10, versions)
    before = len(log.ever(SUBMITTED))

    found = await pages(log, records)

    sent = log.ever(SUBMITTED)[before:]
    assert len(sent) == sum(page.sent for page in found) == before, "what it sends itself is not sent again"
    assert all(page.read <= records for page in found)
    for key in {record.key for record in sent}:
        values = [record.value for record in sent if record.key == key]
        assert values == sorted(values), "versions of a document change places"


def test_a_budget_counts_records_and_the_seconds_since_the_first_one() -> None:
    clock = Clock()
    by_count, by_time = replay_budget(2, 60.0, clock=clock), replay_budget(100, 5.0, clock=clock)
    clock.now = 100.0

    assert [by_count() for _ in range(3)] == [True, True, False]
    assert by_time(), "the log took long to give the first record"
    clock.now = 104.9
    assert by_time()
    clock.now = 105.0
    assert not by_time()
