from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from shared.contracts import MAX_NATURAL, DeadLetter, LogPosition, decode, encode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log import Record
from shared.log.dead_letters import DeadLetters, RecordOwner
from shared.log.failure import Backoff, Failure, traceback_digest
from shared.log.headers import PLACE_HEADER, REDRIVE_HEADER, position_header, position_of, redriven, redrives_of
from shared.log.open_letters import LetterFilter, OpenLetters
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog, compaction
from shared.topics import DEAD_LETTERS, Topic
from tests.builders import a_record
from tests.fakes.blobs import MemoryBlobs

DOCUMENT = document_id("acme", "s", "p")
FAILURE = Failure(stage="extract", code="empty", sentence="no text", attempts=2, first_seen=5, last_seen=9)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([Topic(name=DEAD_LETTERS, partitions=1, cleanup="compact", retention_ms=None)])
    yield log
    await log.stop()


async def stored(
    log: SqliteLog, blobs: MemoryBlobs, record: Record, owner: RecordOwner | None = None, failure: Failure = FAILURE
) -> tuple[bytes, DeadLetter]:
    broker = log.broker("test")
    await broker.start()
    try:
        await DeadLetters(broker, blobs, lambda _: owner)(record, failure)
    finally:
        await broker.stop()
    consumer = log.consumer(auto_offset_reset="earliest")
    consumer.subscribe([DEAD_LETTERS])
    await consumer.start()
    [[letter]] = (await consumer.getmany(timeout_ms=60_000, max_records=1)).values()
    await consumer.stop()
    return letter.key, decode(letter.value, DeadLetter)


async def test_a_letter_holds_the_whole_record_and_the_reason(log: SqliteLog) -> None:
    record = a_record(headers=[("h", b"\xff"), ("null", None)])

    key, letter = await stored(log, MemoryBlobs(), record)

    assert key == b"extract/documents.submitted/3/41/1700/0"
    assert letter == DeadLetter(
        stage="extract",
        code="empty",
        sentence="no text",
        topic="documents.submitted",
        partition=3,
        offset=41,
        time=1_700,
        place=LogPosition(partition=3, offset=41, time=1_700),
        key=b"k\xff",
        value=b"body",
        headers=(("h", b"\xff"), ("null", b"")),
        attempts=2,
        first_seen=5,
        last_seen=9,
    )


async def test_the_key_is_that_of_the_place_where_the_record_entered(log: SqliteLog) -> None:
    place = LogPosition(partition=1, offset=7, time=99)

    key, letter = await stored(log, MemoryBlobs(), a_record(headers=[(PLACE_HEADER, position_header(place).encode())]))

    assert letter.place == place
    assert key == b"extract/documents.submitted/1/7/99/0"


async def test_a_large_body_goes_to_the_blobs_of_its_owner(log: SqliteLog) -> None:
    blobs = MemoryBlobs()
    body = b"x" * 250_000  # base64 makes it larger than the limit

    _, letter = await stored(log, blobs, a_record(body), RecordOwner("acme", DOCUMENT))

    assert (letter.value, letter.tenant, letter.document_id) == (None, "acme", DOCUMENT)
    assert letter.blob is not None
    assert await blobs.get("acme", DOCUMENT, letter.blob) == body


async def test_a_body_of_nobody_has_a_document_of_its_own(log: SqliteLog) -> None:
    blobs = MemoryBlobs()

    key, letter = await stored(log, blobs, a_record(b"x" * 300_000))

    assert (letter.tenant, letter.document_id) == (None, None)
    assert letter.blob is not None
    assert await blobs.get("default", document_id("default", DEAD_LETTERS, key.decode()), letter.blob)


async def test_a_record_of_a_tenant_that_names_no_folder_blocks_nobody(log: SqliteLog) -> None:
    blobs = MemoryBlobs()

    key, letter = await stored(log, blobs, a_record(b"x" * 300_000), RecordOwner("no/folder", DOCUMENT))

    assert (letter.tenant, letter.document_id) == (None, None)
    assert letter.blob is not None
    assert await blobs.get("default", document_id("default", DEAD_LETTERS, key.decode()), letter.blob)


async def test_a_letter_of_a_later_stage_has_the_place_of_its_submission(log: SqliteLog) -> None:
    place = LogPosition(partition=1, offset=7, time=99)
    record = a_record(topic="chunks.g", headers=[(REDRIVE_HEADER, b"2")])

    key, letter = await stored(log, MemoryBlobs(), record, RecordOwner("acme", "doc-1", "s", "p", 12, place))

    assert key == b"extract/chunks.g/1/7/99/2"
    assert (letter.source, letter.path, letter.version, letter.redrives) == ("s", "p", 12, 2)
    assert (letter.partition, letter.offset) == (3, 41)


async def test_an_error_that_quotes_half_a_character_can_be_kept(log: SqliteLog) -> None:
    _, letter = await stored(log, MemoryBlobs(), a_record(), failure=structs.replace(FAILURE, sentence="\ud800 is odd"))

    assert letter.sentence == "? is odd"


async def test_no_record_is_too_large_for_a_letter(log: SqliteLog) -> None:
    record = a_record(None, headers=[("h", b"x" * 900_000)], key=b"k" * 100_000)

    _, letter = await stored(log, MemoryBlobs(), record, RecordOwner("acme", "doc-1", "s" * 200_000, "p" * 200_000))

    assert letter.headers == ()
    assert letter.key == b"k" * 1024
    assert "headers were too large" in letter.sentence


async def test_no_letter_is_published_while_its_body_can_not_be_kept(log: SqliteLog) -> None:
    blobs = MemoryBlobs()
    blobs.away = True

    with pytest.raises(Unavailable, match="no room"):
        await stored(log, blobs, a_record(b"x" * 300_000))

    assert set((await log.end_offsets(DEAD_LETTERS)).values()) == {0}


async def test_letters_of_an_earlier_version_stay_open_when_their_topic_becomes_compacted(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([Topic(name=DEAD_LETTERS, partitions=1, retention_ms=None)])
    broker = log.broker("test")
    await broker.start()
    for times in (1, 2):
        old: dict[str, Any] = {
            "stage": "x",
            "code": "c",
            "sentence": f"{times}",
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "time": 2,
        }
        value = encode(DeadLetter(**old, place=LogPosition(partition=0, offset=1, time=2)))
        await publish(broker, DEAD_LETTERS, value, key=b"x/t/0/1")

    await log.ensure_topics([Topic(name=DEAD_LETTERS, partitions=1, cleanup="compact", retention_ms=None)])
    gone = await compaction.compact(log._storage, DEAD_LETTERS)

    [letter] = (await OpenLetters(log).newest(LetterFilter(tenant="default"), limit=10)).letters
    assert gone == 1
    assert (letter.letter.sentence, letter.keys) == ("2", (b"x/t/0/1",))
    assert await log.retention_ms(DEAD_LETTERS) is None
    await broker.stop()
    await log.stop()


@pytest.mark.parametrize(
    ("header", "times"), [(b"1", 1), (b"41", 41), (b"-1", 0), (b"x", 0), (b"\xb2", 0), (b"9" * 5000, 0), (None, 0)]
)
def test_redrives_are_counted_by_a_header(header: bytes | None, times: int) -> None:
    record = a_record(headers=[(REDRIVE_HEADER, header)])

    assert redrives_of(record) == times
    assert redriven(record) == ({REDRIVE_HEADER: str(times)} if times else {})


@given(partition=st.integers(0, 99), offset=st.integers(0, MAX_NATURAL), time=st.integers(0, MAX_NATURAL))
def test_a_place_survives_its_header(partition: int, offset: int, time: int) -> None:
    place = LogPosition(partition=partition, offset=offset, time=time)

    assert position_of(a_record(timestamp=time, headers=[(PLACE_HEADER, position_header(place).encode())])) == place


def test_a_place_of_the_future_is_none() -> None:
    header = position_header(LogPosition(partition=1, offset=1, time=1_700 + 86_400_000)).encode()

    assert position_of(a_record(headers=[(PLACE_HEADER, header)])).time == 1_700


@pytest.mark.parametrize(
    "header", [b"", b"1/2", b"1/2/x", b"-1/2/3", b"1/2/3/4", b"\xff/1/2", b"1/2/" + b"9" * 5000, None]
)
def test_a_header_that_is_no_place_is_ignored(header: bytes | None) -> None:
    record = a_record(headers=[(PLACE_HEADER, header)])

    assert position_of(record) == LogPosition(partition=3, offset=41, time=1_700)


def test_delays_grow_up_to_a_cap_and_are_spread() -> None:
    backoff = Backoff(0.2, 5.0)

    assert all(0 <= backoff.delay(0) <= 0.2 for _ in range(100))
    late = [backoff.delay(10_000) for _ in range(200)]
    assert max(late) <= 5.0
    assert max(late) - min(late) > 1.0


def test_nobody_rests_so_long_that_work_is_not_resumed_within_ten_seconds() -> None:
    assert Backoff().cap_s <= 5.0


def test_a_digest_names_the_bug_and_not_its_values() -> None:
    def broken(value: object) -> str:
        try:
            raise ValueError(f"{value!r} at {id(value):#x}")  # noqa: TRY301 - it needs a traceback
        except ValueError as error:
            return traceback_digest(error)

    def broken_elsewhere(value: object) -> str:
        try:
            raise ValueError(f"{value!r} at {id(value):#x}")  # noqa: TRY301
        except ValueError as error:
            return traceback_digest(error)

    assert broken("a") == broken(object())
    assert broken("a") != broken_elsewhere("a")
