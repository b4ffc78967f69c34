"""The first stage: what it sends on to another place in the log."""

from shared.blobs import CLAIM_CHECK_BYTES, collect
from shared.contracts import (
    DEFAULT_TENANT,
    DocumentSubmitted,
    encode,
    erasure,
)
from shared.topics import SUBMITTED
from tests.fakes.fetch import MemoryFetch
from tests.unit.services.ingest_worker.first_stage import NAME, PARTITION, FirstStage, Sent, record


async def test_a_replay_writes_no_foreign_record_anew_that_was_erased_since() -> None:
    stage = await FirstStage().begun()
    secret = "a secret of many words " * (CLAIM_CHECK_BYTES // 20)
    foreign = record(1, 0, DocumentSubmitted(source="s", path="p", text=secret), None)
    await stage.ingest(foreign)
    assert [each.topic for each in stage.sent] == [SUBMITTED], "this is how it gets to its own partition"
    await stage.ingest(record(2, PARTITION, erasure(DEFAULT_TENANT, NAME), NAME.encode()))
    await collect(stage.blobs, (DEFAULT_TENANT, NAME), frozenset(), -60.0)
    stage.sent.clear()

    await stage.ingest(foreign)

    assert stage.sent == []
    assert await collect(stage.blobs, (DEFAULT_TENANT, NAME), frozenset(), -60.0) == 0


async def test_a_page_whose_turn_is_far_off_goes_behind_what_came_after_it_and_keeps_its_place() -> None:
    stage = await FirstStage(MemoryFetch()).begun()
    page = DocumentSubmitted(source="s", path="p", url="http://slow.example/")

    await stage.ingest(record(7, PARTITION, page, NAME.encode()))

    headers = {"sluice-rekeyed": "1", "sluice-place": "1/7/7000"}
    assert stage.sent == [Sent(SUBMITTED, encode(page), {"key": NAME.encode(), "headers": headers})]
    assert await stage.ledger.get(NAME) is None
