"""The first stage on parts in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from services.ingest_worker.crawl import Bounds
from services.ingest_worker.fetch import Busy, Fetcher, Limits, Page
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import ParserPool
from shared.blobs import CLAIM_CHECK_BYTES
from shared.contracts import DEFAULT_TENANT, Crawl, DocumentSubmitted, Validators, encode, erasure
from shared.errors import Rejected
from shared.ids import document_id
from shared.index import Index
from shared.ledger import Ledger
from shared.log import Record
from shared.room import Room
from shared.statuses import Statuses
from shared.topics import EXTRACTED, SUBMITTED
from tests.simulation.parts import GENERATION, Characters, MemoryBlobs
from tests.simulation.store import MemoryStore

NAME = document_id(DEFAULT_TENANT, "s", "p")


def record(offset: int, partition: int, document: DocumentSubmitted, key: bytes | None) -> Record:
    """Return a record of documents.submitted; the later its offset, the later it came."""
    value = encode(document)
    return ConsumerRecord(SUBMITTED, partition, offset, 1000 * offset, 1, key, value, None, -1, len(value), ())


async def test_a_replay_writes_no_foreign_record_anew_that_was_erased_since() -> None:
    store, blobs, sent = MemoryStore(), MemoryBlobs(), list[str]()
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        sent.append(topic)

    async def partition_of(key: bytes) -> int:
        return 1

    ingest = Ingest(
        ledger=ledger,
        index=index,
        blobs=blobs,
        parsers=ParserPool(1, tokens=Characters()),
        publish=publish,
        statuses=Statuses(ledger, publish),
        partition_of=partition_of,
        room=Room(),
        fetch=Fetcher(Guard(), Limits()),
    )
    secret = "a secret of many words " * (CLAIM_CHECK_BYTES // 20)
    foreign = record(1, 0, DocumentSubmitted(source="s", path="p", text=secret), None)
    await ingest(foreign)
    assert sent == [SUBMITTED], "this is how it gets to its own partition"
    await ingest(record(2, 1, erasure(DEFAULT_TENANT, NAME), NAME.encode()))
    await blobs.delete(DEFAULT_TENANT, NAME)
    sent.clear()

    await ingest(foreign)

    assert sent == []
    assert await blobs.delete(DEFAULT_TENANT, NAME) == 0


class OnePage:
    """A fetch that gives the same page for every address."""

    def __init__(self, page: Page) -> None:
        self._page = page

    @asynccontextmanager
    async def page(self, url: str, known: Validators | None = None) -> AsyncIterator[Page | None]:
        yield self._page

    async def listed(self, page: Page, most: int) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("found", "robots", "welcome"), [(True, True, False), (False, True, True), (True, False, True)]
)
async def test_a_page_that_asks_not_to_be_indexed_is_left_out_if_a_crawl_found_it_and_robots_count(
    found: bool, robots: bool, welcome: bool
) -> None:
    store, sent = MemoryStore(), list[str]()
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        sent.append(topic)

    async def partition_of(key: bytes) -> int:
        return 1

    url = "http://herons.example/"
    page = Page(url=url, body=b"Herons nest here.", media_type="text/plain", validators=None, robots=("noindex",))
    ingest = Ingest(
        ledger=ledger,
        index=index,
        blobs=MemoryBlobs(),
        parsers=ParserPool(1, tokens=Characters()),
        publish=publish,
        statuses=Statuses(ledger, publish),
        partition_of=partition_of,
        room=Room(),
        fetch=OnePage(page),
        bounds=Bounds(robots=robots),
    )
    crawl = Crawl(host="herons.example", pages=1) if found else None
    submission = record(1, 1, DocumentSubmitted(source="s", path="p", url=url, crawl=crawl), NAME.encode())

    if welcome:
        await ingest(submission)
        assert sent == [EXTRACTED]
    else:
        with pytest.raises(Rejected, match="asks robots not to index it") as refused:
            await ingest(submission)
        assert (refused.value.code, sent, await ledger.get(NAME)) == ("noindex", [], None)


class BusyHosts:
    """A fetch whose every host has others before us."""

    @asynccontextmanager
    async def page(self, url: str, known: Validators | None = None) -> AsyncIterator[Page | None]:
        if url:
            raise Busy
        yield None

    async def listed(self, page: Page, most: int) -> list[str]:
        raise Busy


async def test_a_page_whose_turn_is_far_off_goes_behind_what_came_after_it_and_keeps_its_place() -> None:
    store, sent = MemoryStore(), list[tuple[str, bytes | None, dict[str, Any]]]()
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()

    async def publish(topic: str, value: bytes | None, **options: Any) -> Any:
        sent.append((topic, value, options))

    async def partition_of(key: bytes) -> int:
        return 1

    ingest = Ingest(
        ledger=ledger,
        index=index,
        blobs=MemoryBlobs(),
        parsers=ParserPool(1, tokens=Characters()),
        publish=publish,
        statuses=Statuses(ledger, publish),
        partition_of=partition_of,
        room=Room(),
        fetch=BusyHosts(),
    )
    page = DocumentSubmitted(source="s", path="p", url="http://slow.example/")

    await ingest(record(7, 1, page, NAME.encode()))

    headers = {"sluice-rekeyed": "1", "sluice-place": "1/7/7000"}
    assert sent == [(SUBMITTED, encode(page), {"key": NAME.encode(), "headers": headers})]
    assert await ledger.get(NAME) is None
