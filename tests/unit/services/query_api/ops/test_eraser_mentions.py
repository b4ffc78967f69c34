"""Which records an erasure takes."""

from typing import Any

import pytest
from aiokafka import ConsumerRecord

from services.query_api.ops.eraser import goes
from shared.contracts import (
    ERASED,
    BlobRef,
    DocumentChunked,
    DocumentExtracted,
    DocumentSubmitted,
    DocumentVersion,
    LogPosition,
    Message,
    encode,
    erasure,
)
from shared.ids import document_id
from shared.log import Record
from shared.log.headers import PLACE_HEADER
from shared.submission import DocumentMention, mention
from shared.topics import EXTRACTED, SUBMITTED

CHUNKS = "chunks.g1"
NAME = document_id("t", "s", "p")
OWN, FIRST = LogPosition(partition=1, offset=7, time=70), LogPosition(partition=0, offset=3, time=50)
BLOB = BlobRef(sha256="b" * 64, size=9)
NOTHING: frozenset[str] = frozenset()


def a_record(topic: str, value: Message | bytes | None, **headers: str) -> Record:
    return ConsumerRecord(
        topic=topic,
        partition=OWN.partition,
        offset=OWN.offset,
        timestamp=OWN.time,
        timestamp_type=1,
        key=NAME.encode(),
        value=encode(value) if isinstance(value, Message) else value,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=tuple((name, value.encode()) for name, value in headers.items()),
    )


def a_submission(**fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(tenant="t", source="s", path="p", **fields)


def a_version(**fields: Any) -> DocumentVersion:
    given: dict[str, Any] = {
        "document_id": NAME,
        "version": 5,
        "place": FIRST,
        "tenant": "t",
        "source": "s",
        "path": "p",
        "outcome": "created",
        "raw_hash": "r",
    }
    return DocumentVersion(**(given | fields))


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (a_record(SUBMITTED, a_submission(text="x")), DocumentMention(NAME, OWN, NOTHING, erases=False)),
        (
            a_record(SUBMITTED, a_submission(blob=BLOB)),
            DocumentMention(NAME, OWN, frozenset({BLOB.sha256}), erases=False),
        ),
        (
            a_record(SUBMITTED, a_submission(text="x"), **{PLACE_HEADER: "0/3/50"}),
            DocumentMention(NAME, FIRST, NOTHING, erases=False),
        ),
        # A null names its document by headers; the names are what has to go.
        (
            a_record(SUBMITTED, None, tenant="t", source="s", path="p"),
            DocumentMention(NAME, OWN, NOTHING, erases=False),
        ),
        (a_record(SUBMITTED, erasure("t", NAME)), DocumentMention(NAME, OWN, NOTHING, erases=True)),
        (
            a_record(EXTRACTED, DocumentExtracted(document=a_version(text_sha256="c" * 64))),
            DocumentMention(NAME, FIRST, frozenset({"c" * 64}), erases=False),
        ),
        (
            a_record(EXTRACTED, DocumentExtracted(document=a_version(text_sha256="c" * 64), chunks_blob=BLOB)),
            DocumentMention(NAME, FIRST, frozenset({"c" * 64, BLOB.sha256}), erases=False),
        ),
        (
            a_record(EXTRACTED, DocumentExtracted(document=a_version(raw_hash=ERASED))),
            DocumentMention(NAME, FIRST, NOTHING, erases=True),
        ),
        (
            a_record(CHUNKS, DocumentChunked(document=a_version(), blob=BLOB)),
            DocumentMention(NAME, FIRST, frozenset({BLOB.sha256}), erases=False),
        ),
        (a_record(SUBMITTED, b"{not json"), None),
        (a_record(SUBMITTED, None), None),
        (a_record(CHUNKS, None), None),
        (a_record("dead.letters", b"{}"), None),
    ],
)
def test_a_record_says_whose_it_is_and_from_where(record: Record, found: DocumentMention | None) -> None:
    assert mention(record) == found


def test_what_is_older_than_the_erasure_goes_and_nothing_else() -> None:
    erased = {NAME: LogPosition(partition=1, offset=8, time=80)}
    older = DocumentMention(NAME, OWN, NOTHING, erases=False)

    assert goes(older, erased)
    assert goes(older._replace(place=FIRST), erased)
    assert not goes(older._replace(place=LogPosition(partition=1, offset=9, time=80)), erased)  # sent again since
    assert not goes(older._replace(place=erased[NAME]), erased)
    assert not goes(older._replace(erases=True), erased)
    assert not goes(older._replace(document_id="another"), erased)
    assert not goes(None, erased)
