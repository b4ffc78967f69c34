"""The first stage: a submission that has ended is read again, by a replay or after a crash."""

from dataclasses import replace

import pytest

from shared.blobs import collect
from shared.contracts import DEFAULT_TENANT, BlobRef, DocumentExtracted, DocumentSubmitted, StatusNotice, decode
from shared.errors import Rejected
from shared.log import Record
from shared.state.statuses import Statuses
from shared.topics import STATUS
from tests.unit.services.ingest_worker.first_stage import NAME, PARTITION, ChangingParser, FirstStage, record

NO_BLOB = BlobRef(sha256="0" * 64, size=1)


def redriven(first: Record, times: int) -> Record:
    return replace(first, headers=(("sluice-redrive", str(times).encode()),))


async def test_it_is_passed_over_before_its_body_is_asked_for() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    body = await stage.blobs.put(DEFAULT_TENANT, NAME, b"A large body.")
    first = record(1, PARTITION, DocumentSubmitted(source="s", path="p", blob=body), NAME.encode())
    await stage.ingest(first)
    version = decode(stage.sent[0].value, DocumentExtracted).document
    await Statuses(stage.ledger, stage.publish).end(version, "created", chunk_count=1)
    await collect(stage.blobs, (DEFAULT_TENANT, NAME), frozenset(), -60.0)
    stage.sent.clear()

    await stage.ingest(first)

    (notice,) = stage.sent
    told = decode(notice.value, StatusNotice)
    assert (notice.topic, told.status, told.place.offset) == (STATUS, "created", 1)


async def test_one_that_failed_is_tried_again_only_by_a_redrive() -> None:
    stage = await FirstStage().begun()
    first = record(1, PARTITION, DocumentSubmitted(source="s", path="p", blob=NO_BLOB), NAME.encode())
    with pytest.raises(Rejected) as missing:
        await stage.ingest(first)
    await stage.ingest.failed(first, missing.value.sentence, missing.value.code)

    await stage.ingest(first)
    with pytest.raises(Rejected, match="missing"):
        await stage.ingest(redriven(first, 1))


async def test_a_redrive_is_counted_in_the_version_it_makes() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    first = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())

    await stage.ingest(redriven(first, 2))

    assert stage.sent[0].options["headers"] == {"sluice-redrive": "2"}
