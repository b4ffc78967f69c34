"""Follows the links of a fetched page: submits the pages found, as `crawl` says, and obeys the page's directives."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from services.ingest_worker import crawl_rules
from services.ingest_worker.content import Content, ContentReader
from services.ingest_worker.extract import Extraction
from services.ingest_worker.fetch import FetchedPage, Fetcher, robots
from shared import tracing
from shared.contracts import Crawl, DocumentSubmitted, LogPosition, encode
from shared.errors import Rejected
from shared.ids import document_id
from shared.inputs.urls import canonical
from shared.log import Publish
from shared.state.ledger import Entry, Ledger
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 50  # pages of a crawl that are published concurrently
_LOOKED_UP: Final = 256  # entries of the ledger read at once
_LINKS: Final = 4  # of a page, read before the event loop is given back; the longest take 2 ms each


@dataclass(frozen=True, kw_only=True)
class Crawler:
    """Submits the pages that a crawled page leads to."""

    ledger: Ledger
    reader: ContentReader
    fetch: Fetcher
    publish: Publish
    bounds: crawl_rules.Bounds

    async def follow(self, submitted: DocumentSubmitted, place: LogPosition, content: Content) -> Extraction | None:
        """Submit the pages that the page leads to, and return its extraction; None where the crawl ends here."""
        page = content.page
        if page is None or submitted.crawl is None or not submitted.leads_on:
            return None
        goes_on = crawl_rules.begun(submitted.crawl, place, page.url, self.bounds)
        extraction = await self.reader.extract(submitted, content)
        depths: dict[str, int] = {}
        if goes_on.sitemap:
            listed = await self.fetch.listed(page, goes_on.pages or 0, tenant=submitted.tenant)
            depths = dict.fromkeys(await _addresses(listed, page.url, goes_on), goes_on.depth)
        if goes_on.depth and extraction is not None and "nofollow" not in self._directives(page, extraction):
            for address in await _addresses(extraction.links, page.url, goes_on):
                depths.setdefault(address, goes_on.depth - 1)
        for itself in (page.url, submitted.path, canonical(submitted.url or page.url)):
            depths.pop(itself, None)
        names = [document_id(submitted.tenant, submitted.source, address) for address in depths]
        entries: dict[str, Entry] = {}
        for start in range(0, len(names), _LOOKED_UP):
            entries |= await self.ledger.entries(names[start : start + _LOOKED_UP])
        new = {
            address: depth
            for (address, depth), name in zip(depths.items(), names, strict=True)
            if (entry := entries.get(name)) is None or entry.last.place.time < goes_on.since
        }
        found = crawl_rules.submissions(submitted, goes_on, new)
        for start in range(0, len(found), _AT_ONCE):
            await asyncio.gather(*map(self._submit, found[start : start + _AT_ONCE]))
        log.info("pages_found", document_id=submitted.document_id, submitted=len(found), left_out=len(new) - len(found))
        return extraction

    def check_indexable(self, submitted: DocumentSubmitted, content: Content, extraction: Extraction | None) -> None:
        """Raise Rejected if a crawl found the page and the page asks robots not to index it."""
        page = content.page
        if page is not None and submitted.found and "noindex" in self._directives(page, extraction):
            raise Rejected(f"{page.url} was found by a crawl and asks robots not to index it", "noindex")

    async def _submit(self, found: DocumentSubmitted) -> None:
        with tracing.step("submit", apart=True):
            await self.publish(SUBMITTED, encode(found), key=found.document_id.encode())

    def _directives(self, page: FetchedPage, extraction: Extraction | None) -> frozenset[str]:
        """Return the page's known robots directives; empty if they are ignored by setting."""
        values = [*page.robots, *(extraction.robots if extraction else ())]
        return robots.directives(values) if self.bounds.robots else frozenset()


async def _addresses(links: Sequence[str], base: str, crawl: Crawl) -> dict[str, None]:
    """Return `crawl_rules.addresses` of the links: 10,000 long ones would hold the event loop for ten seconds."""
    found: dict[str, None] = {}
    for start in range(0, len(links), _LINKS):
        found |= dict.fromkeys(crawl_rules.addresses(links[start : start + _LINKS], base, crawl))
        await asyncio.sleep(0)
    return found
