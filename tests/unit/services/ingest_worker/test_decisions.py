"""What is decided on submissions that keep or change something of the accepted version."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from services.ingest_worker.fetch import FetchedPage
from shared.contracts import DocumentExtracted, DocumentSubmitted, Validators, decode
from shared.topics import EXTRACTED
from tests.fakes.fetch import MemoryFetch
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


class SlowFetch(MemoryFetch):
    """Gives its page after something else happened, once."""

    meanwhile: Awaitable[None] | None = None

    @asynccontextmanager
    async def page(
        self, url: str, known: Validators | None = None, *, tenant: str
    ) -> AsyncIterator[FetchedPage | None]:
        if (other := self.meanwhile) is not None:
            self.meanwhile = None
            await other
        async with super().page(url, known, tenant=tenant) as page:
            yield page


async def test_a_version_that_seemed_to_be_there_already_is_read_before_it_is_accepted() -> None:
    fetch = SlowFetch(FetchedPage(url="http://h/p", body=b"x", media_type="text/plain", validators=None))
    stage = await FirstStage(fetch=fetch, parsers=ChangingParser()).begun()
    page = DocumentSubmitted(source="s", path="p", url="http://h/p")
    other = DocumentSubmitted(source="s", path="p", text="y")
    await stage.ingest(record(1, PARTITION, page, NAME.encode()))

    fetch.meanwhile = stage.ingest(record(2, PARTITION, other, NAME.encode()))
    await stage.ingest(record(3, PARTITION, page, NAME.encode()))

    entry = await stage.ledger.get(NAME)
    assert entry is not None
    assert entry.accepted.place.offset == 3
    assert entry.accepted.text is not None
    assert entry.accepted.reading is not None
    events = [decode(each.value, DocumentExtracted) for each in stage.sent if each.topic == EXTRACTED]
    assert [each.text for each in events] == ["Reading 1.", "Reading 2.", "Reading 3."]
