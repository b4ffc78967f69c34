"""Which text an accepted version is published with."""

import msgspec

from shared.contracts import (
    DocumentSubmitted,
)
from shared.state.ledger import Entry
from tests.unit.services.ingest_worker.first_stage import NAME, PARTITION, ChangingParser, FirstStage, record, texts_of


async def test_a_version_keeps_its_text_when_its_record_is_read_again() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    submission = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())

    await stage.ingest(submission)
    await stage.ingest(submission)

    assert texts_of(stage) == [("Reading 1.", "Reading 1.")] * 2


async def test_a_version_that_an_earlier_release_accepted_has_its_text_decided_by_whoever_is_first() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    submission = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())
    await stage.ingest(submission)

    def as_before(seen: Entry | None) -> Entry:
        assert seen is not None
        return msgspec.structs.replace(seen, accepted=msgspec.structs.replace(seen.accepted, text=None))

    await stage.ledger.update(NAME, as_before)
    await stage.ingest(submission)
    await stage.ingest(submission)

    assert texts_of(stage)[1:] == [("Reading 2.", "Reading 2.")] * 2


async def test_the_next_version_has_a_text_of_its_own() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    for offset in (1, 2):
        document = DocumentSubmitted(source="s", path="p", text=f"x{offset}")
        await stage.ingest(record(offset, PARTITION, document, NAME.encode()))

    assert [text for text, _ in texts_of(stage)] == ["Reading 1.", "Reading 2."]
