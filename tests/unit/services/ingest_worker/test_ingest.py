"""The first stage on parts in memory."""

from collections.abc import Awaitable
from typing import Any, NamedTuple, Self

import msgspec
import pytest
from aiokafka import ConsumerRecord

from services.ingest_worker.crawl import Bounds
from services.ingest_worker.extract import Extraction
from services.ingest_worker.fetch import FetchedPage, Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.blobs import CLAIM_CHECK_BYTES
from shared.contracts import (
    DEFAULT_TENANT,
    Crawl,
    DocumentExtracted,
    DocumentSubmitted,
    decode,
    encode,
    erasure,
)
from shared.errors import Rejected
from shared.ids import document_id
from shared.log import Record
from shared.runtime.memory_budget import MemoryBudget
from shared.state.ledger import Entry
from shared.state.statuses import Statuses
from shared.topics import EXTRACTED, SUBMITTED
from tests.fakes.blobs import MemoryBlobs
from tests.fakes.fetch import MemoryFetch
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore
from tests.fakes.tokens import Characters

NAME = document_id(DEFAULT_TENANT, "s", "p")
PARTITION = 1


class Sent(NamedTuple):
    """What the stage published."""

    topic: str
    value: bytes | None
    options: dict[str, Any]


class Desk:
    """The stage on parts in memory, and what it sent."""

    def __init__(self, fetch: Any = None, parsers: Any = None, **options: Any) -> None:
        self.blobs, self.sent = MemoryBlobs(), list[Sent]()
        self._parsers = parsers or ParserPool(1, tokens=Characters())
        self._fetch, self._options = fetch or Fetcher(Guard(), FetchLimits()), options

    async def begun(self) -> Self:
        self.ledger, index = await ledger_and_index(MemoryStore())
        self.ingest = Ingest(
            ledger=self.ledger,
            index=index,
            blobs=self.blobs,
            parsers=self._parsers,
            publish=self._publish,
            statuses=Statuses(self.ledger, self._publish),
            partition_of=self._partition_of,
            room=MemoryBudget(),
            fetch=self._fetch,
            **self._options,
        )
        return self

    async def _publish(self, topic: str, value: bytes | None, **options: Any) -> Any:
        self.sent.append(Sent(topic, value, options))

    async def _partition_of(self, key: bytes) -> int:
        return PARTITION


def record(offset: int, partition: int, document: DocumentSubmitted, key: bytes | None) -> Record:
    """Return a record of documents.submitted; the later its offset, the later it came."""
    value = encode(document)
    return ConsumerRecord(SUBMITTED, partition, offset, 1000 * offset, 1, key, value, None, -1, len(value), ())


async def test_a_replay_writes_no_foreign_record_anew_that_was_erased_since() -> None:
    desk = await Desk().begun()
    secret = "a secret of many words " * (CLAIM_CHECK_BYTES // 20)
    foreign = record(1, 0, DocumentSubmitted(source="s", path="p", text=secret), None)
    await desk.ingest(foreign)
    assert [each.topic for each in desk.sent] == [SUBMITTED], "this is how it gets to its own partition"
    await desk.ingest(record(2, PARTITION, erasure(DEFAULT_TENANT, NAME), NAME.encode()))
    await desk.blobs.delete(DEFAULT_TENANT, NAME)
    desk.sent.clear()

    await desk.ingest(foreign)

    assert desk.sent == []
    assert await desk.blobs.delete(DEFAULT_TENANT, NAME) == 0


@pytest.mark.parametrize(
    ("found", "robots", "welcome"), [(True, True, False), (False, True, True), (True, False, True)]
)
async def test_a_page_that_asks_not_to_be_indexed_is_left_out_if_a_crawl_found_it_and_robots_count(
    found: bool, robots: bool, welcome: bool
) -> None:
    url = "http://herons.example/"
    page = FetchedPage(
        url=url, body=b"Herons nest here.", media_type="text/plain", validators=None, robots=("noindex",)
    )
    desk = await Desk(MemoryFetch(page), bounds=Bounds(robots=robots)).begun()
    crawl = Crawl(host="herons.example", pages=1) if found else None
    document = DocumentSubmitted(source="s", path="p", url=url, crawl=crawl)
    submission = record(1, PARTITION, document, NAME.encode())

    if welcome:
        await desk.ingest(submission)
        assert [each.topic for each in desk.sent] == [EXTRACTED]
    else:
        with pytest.raises(Rejected, match="asks robots not to index it") as refused:
            await desk.ingest(submission)
        assert (refused.value.code, desk.sent, await desk.ledger.get(NAME)) == ("noindex", [], None)


async def test_a_page_whose_turn_is_far_off_goes_behind_what_came_after_it_and_keeps_its_place() -> None:
    desk = await Desk(MemoryFetch()).begun()
    page = DocumentSubmitted(source="s", path="p", url="http://slow.example/")

    await desk.ingest(record(7, PARTITION, page, NAME.encode()))

    headers = {"sluice-rekeyed": "1", "sluice-place": "1/7/7000"}
    assert desk.sent == [Sent(SUBMITTED, encode(page), {"key": NAME.encode(), "headers": headers})]
    assert await desk.ledger.get(NAME) is None


class Moody:
    """A reader that says something else each time."""

    def __init__(self) -> None:
        self.said = 0

    async def extract(self, body: bytes, **hints: Any) -> Extraction:
        self.said += 1
        return Extraction(text=f"Reading {self.said}.", document_type="txt", pages=(0,))


def texts_of(desk: Desk) -> list[tuple[str | None, str | None]]:
    """Return the text of each event, and the one that its blob has."""
    events = [decode(each.value, DocumentExtracted) for each in desk.sent if each.topic == EXTRACTED]
    blobs = [desk.blobs.text(DEFAULT_TENANT, NAME, event.document.text_sha256 or "") for event in events]
    return [(event.text, blob) for event, blob in zip(events, blobs, strict=True)]


async def test_a_version_keeps_its_text_when_its_record_is_read_again() -> None:
    desk = await Desk(parsers=Moody()).begun()
    submission = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())

    await desk.ingest(submission)
    await desk.ingest(submission)

    assert texts_of(desk) == [("Reading 1.", "Reading 1.")] * 2


async def test_a_version_that_an_earlier_release_accepted_has_its_text_decided_by_whoever_is_first() -> None:
    desk = await Desk(parsers=Moody()).begun()
    submission = record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode())
    await desk.ingest(submission)

    def as_before(seen: Entry | None) -> Entry:
        assert seen is not None
        return msgspec.structs.replace(seen, accepted=msgspec.structs.replace(seen.accepted, text=None))

    await desk.ledger.update(NAME, as_before)
    await desk.ingest(submission)
    await desk.ingest(submission)

    assert texts_of(desk)[1:] == [("Reading 2.", "Reading 2.")] * 2


async def test_the_next_version_has_a_text_of_its_own() -> None:
    desk = await Desk(parsers=Moody()).begun()
    for offset in (1, 2):
        document = DocumentSubmitted(source="s", path="p", text=f"x{offset}")
        await desk.ingest(record(offset, PARTITION, document, NAME.encode()))

    assert [text for text, _ in texts_of(desk)] == ["Reading 1.", "Reading 2."]


class Slow(Moody):
    """A reader during which something else happens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile = list[Awaitable[None]]()

    async def extract(self, body: bytes, **hints: Any) -> Extraction:
        if self.meanwhile:
            await self.meanwhile.pop()
        return await super().extract(body, **hints)


async def test_what_is_kept_is_of_the_version_that_stands_when_the_next_one_is_accepted() -> None:
    reader = Slow()
    desk = await Desk(parsers=reader).begun()
    tagged = [DocumentSubmitted(source="s", path="p", text=tag, tags=(tag,)) for tag in "ab"]
    bare = DocumentSubmitted(source="s", path="p", text="c", keep=("tags",))
    await desk.ingest(record(1, PARTITION, tagged[0], NAME.encode()))

    reader.meanwhile.append(desk.ingest(record(2, PARTITION, tagged[1], NAME.encode())))
    await desk.ingest(record(3, PARTITION, bare, NAME.encode()))

    events = [decode(each.value, DocumentExtracted).document for each in desk.sent if each.topic == EXTRACTED]
    assert [event.tags for event in events] == [("a",), ("b",), ("b",)]


async def test_what_an_earlier_release_did_not_write_down_is_not_lost_silently() -> None:
    desk = await Desk(parsers=Moody()).begun()
    await desk.ingest(record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x"), NAME.encode()))

    def as_before(seen: Entry | None) -> Entry:
        assert seen is not None
        return msgspec.structs.replace(seen, accepted=msgspec.structs.replace(seen.accepted, given=None))

    await desk.ledger.update(NAME, as_before)
    bare = DocumentSubmitted(source="s", path="p", text="y", keep=("tags", "metadata"))
    with pytest.raises(Rejected, match="tags, metadata can't be kept"):
        await desk.ingest(record(2, PARTITION, bare, NAME.encode()))


async def test_a_change_of_metadata_for_another_version_ends_and_its_own_may_be_read_again() -> None:
    desk = await Desk(parsers=Moody()).begun()
    await desk.ingest(
        record(1, PARTITION, DocumentSubmitted(source="s", path="p", text="x", tags=("a",)), NAME.encode())
    )
    fitting = DocumentSubmitted(source="s", path="p", patch=True, if_version=1000, title="T", keep=("tags",))

    for _ in range(2):
        await desk.ingest(record(2, PARTITION, fitting, NAME.encode()))
    await desk.ingest(record(3, PARTITION, fitting, NAME.encode()))

    entry = await desk.ledger.get(NAME)
    events = [decode(each.value, DocumentExtracted) for each in desk.sent if each.topic == EXTRACTED]
    assert entry is not None
    assert (entry.accepted.version, entry.last.status, entry.last.code) == (2000, "failed", "changed")
    assert [(event.document.version, event.document.title, event.document.tags, event.text) for event in events] == [
        (1000, None, ("a",), "Reading 1."),
        (2000, "T", ("a",), "Reading 1."),
        (2000, "T", ("a",), "Reading 1."),
    ]
