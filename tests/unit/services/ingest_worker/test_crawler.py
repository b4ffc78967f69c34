"""Which pages a crawl leaves out."""

import asyncio
import time

import pytest

from services.ingest_worker.crawl_rules import Bounds
from services.ingest_worker.fetch import FetchedPage
from shared.contracts import (
    Crawl,
    DocumentSubmitted,
)
from shared.errors import Rejected
from shared.topics import EXTRACTED, SUBMITTED
from tests.fakes.fetch import MemoryFetch
from tests.unit.services.ingest_worker.first_stage import NAME, PARTITION, FirstStage, record


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
    stage = await FirstStage(MemoryFetch(page), bounds=Bounds(robots=robots)).begun()
    crawl = Crawl(host="herons.example", pages=1) if found else None
    document = DocumentSubmitted(source="s", path="p", url=url, crawl=crawl)
    submission = record(1, PARTITION, document, NAME.encode())

    if welcome:
        await stage.ingest(submission)
        assert [each.topic for each in stage.sent] == [EXTRACTED]
    else:
        with pytest.raises(Rejected, match="asks robots not to index it") as refused:
            await stage.ingest(submission)
        assert (refused.value.code, stage.sent, await stage.ledger.get(NAME)) == ("noindex", [], None)


async def test_many_long_addresses_hold_nobody_up() -> None:
    url, longest, last = "http://herons.example/", 0.0, time.thread_time()
    page = FetchedPage(url=url, body=b"<urlset></urlset>", media_type="text/xml", validators=None)
    listed = tuple(f"{url}{number}/{'x' * 1900}" for number in range(500))
    stage = await FirstStage(MemoryFetch(page, listed)).begun()
    document = DocumentSubmitted(source="s", path="p", url=url, crawl=Crawl(depth=1, sitemap=True))

    async def look() -> None:
        nonlocal longest, last
        while True:
            last = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - last)

    looking = asyncio.create_task(look())
    await stage.ingest(record(1, PARTITION, document, NAME.encode()))
    looking.cancel()

    assert sum(each.topic == SUBMITTED for each in stage.sent) == len(listed)
    assert longest < 0.2  # seconds of CPU time; all of them take 0.7
