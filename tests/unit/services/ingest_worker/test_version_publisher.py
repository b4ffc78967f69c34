"""Which text an accepted version is published with."""

from shared.contracts import (
    DocumentSubmitted,
)
from tests.unit.services.ingest_worker.first_stage import NAME, PARTITION, ChangingParser, FirstStage, record, texts_of


async def test_a_version_keeps_its_text_when_its_record_is_read_again() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    submission = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())

    await stage.ingest(submission)
    await stage.ingest(submission)

    assert texts_of(stage) == [("Reading 1.", "Reading 1.")] * 2


async def test_the_next_version_has_a_text_of_its_own() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    for offset in (1, 2):
        document = DocumentSubmitted(source="s", path="p", text=f"x{offset}")
        await stage.ingest(record(offset, PARTITION, document, NAME.encode()))

    assert [text for text, _ in texts_of(stage)] == ["Reading 1.", "Reading 2."]
