"""Follows the links of a fetched page: submits the pages found, as `crawl` says, and obeys the page's directives."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from services.ingest_worker import crawl_rules
from services.ingest_worker.content import Content, ContentReader
from services.ingest_worker.extract import Extraction
from services.ingest_worker.fetch import FetchedPage, Fetcher, robots
from shared import tracing
from shared.contracts import DocumentSubmitted, LogPosition, encode
from shared.errors import Rejected
from shared.ids import document_id
from shared.inputs.urls import canonical
from shared.log import Publish
from shared.state.ledger import Ledger
from shared.topics import SUBMITTED

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 50  # pages of a crawl that are published concurrently


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
            depths = dict.fromkeys(crawl_rules.addresses(listed, page.url, goes_on), goes_on.depth)
        if goes_on.depth and extraction is not None and "nofollow" not in self._directives(page, extraction):
            for address in crawl_rules.addresses(extraction.links, page.url, goes_on):
                depths.setdefault(address, goes_on.depth - 1)
        for itself in (page.url, submitted.path, canonical(submitted.url or page.url)):
            depths.pop(itself, None)
        names = [document_id(submitted.tenant, submitted.source, address) for address in depths]
        entries = await asyncio.gather(*map(self.ledger.get, names))
        new = {
            address: depth
            for (address, depth), entry in zip(depths.items(), entries, strict=True)
            if entry is None or entry.last.place.time < goes_on.since
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
