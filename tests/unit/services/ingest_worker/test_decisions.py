"""What is decided on submissions that keep or change something of the accepted version."""

import msgspec
import pytest

from shared.contracts import (
    DocumentExtracted,
    DocumentSubmitted,
    decode,
)
from shared.errors import Rejected
from shared.state.ledger import Entry
from shared.topics import EXTRACTED
from tests.unit.services.ingest_worker.first_stage import (
    NAME,
    PARTITION,
    ChangingParser,
    FirstStage,
    SlowParser,
    record,
)


async def test_what_is_kept_is_of_the_version_that_stands_when_the_next_one_is_accepted() -> None:
    reader = SlowParser()
    stage = await FirstStage(parsers=reader).begun()
    tagged = [DocumentSubmitted(source="s", path="p", text=tag, tags=(tag,)) for tag in "ab"]
    bare = DocumentSubmitted(source="s", path="p", text="c", keep=("tags",))
    await stage.ingest(record(1, PARTITION, tagged[0], NAME.encode()))

    reader.meanwhile.append(stage.ingest(record(2, PARTITION, tagged[1], NAME.encode())))
    await stage.ingest(record(3, PARTITION, bare, NAME.encode()))

    events = [decode(each.value, DocumentExtracted).document for each in stage.sent if each.topic == EXTRACTED]
    assert [event.tags for event in events] == [("a",), ("b",), ("b",)]


async def test_what_an_earlier_release_did_not_write_down_is_not_lost_silently() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    await stage.ingest(record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode()))

    def as_before(seen: Entry | None) -> Entry:
        assert seen is not None
        return msgspec.structs.replace(seen, accepted=msgspec.structs.replace(seen.accepted, given=None))

    await stage.ledger.update(NAME, as_before)
    bare = DocumentSubmitted(source="s", path="p", text="y", keep=("tags", "metadata"))
    with pytest.raises(Rejected, match="tags, metadata can't be kept"):
        await stage.ingest(record(2, PARTITION, bare, NAME.encode()))


async def test_a_change_of_metadata_for_another_version_ends_and_its_own_may_be_read_again() -> None:
    stage = await FirstStage(parsers=ChangingParser()).begun()
    await stage.ingest(
        record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x", tags=("a",)), NAME.encode())
    )
    fitting = DocumentSubmitted(source="s", path="p", patch=True, if_version=1000, title="T", keep=("tags",))

    for _ in range(2):
        await stage.ingest(record(2, PARTITION, fitting, NAME.encode()))
    await stage.ingest(record(3, PARTITION, fitting, NAME.encode()))

    entry = await stage.ledger.get(NAME)
    events = [decode(each.value, DocumentExtracted) for each in stage.sent if each.topic == EXTRACTED]
    assert entry is not None
    assert (entry.accepted.version, entry.last.status, entry.last.code) == (2000, "failed", "changed")
    assert [(event.document.version, event.document.title, event.document.tags, event.text) for event in events] == [
        (1000, None, ("a",), "Reading 1."),
        (2000, "T", ("a",), "Reading 1."),
        (2000, "T", ("a",), "Reading 1."),
    ]
