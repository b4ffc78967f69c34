"""The fake of `services.ingest_worker.fetch.Fetcher`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.ingest_worker.fetch import Busy, FetchedPage, Fetcher
from shared.contracts import Validators


class MemoryFetch(Fetcher):
    """Gives the same page for every address; without a page, every host is busy."""

    def __init__(self, page: FetchedPage | None = None, listed: tuple[str, ...] = ()) -> None:  # no connections to make
        self.page_given = page
        self._addresses = listed

    @asynccontextmanager
    async def page(
        self, url: str, known: Validators | None = None, *, tenant: str
    ) -> AsyncIterator[FetchedPage | None]:
        if self.page_given is None:
            raise Busy
        yield self.page_given

    async def listed(self, page: FetchedPage, most: int, *, tenant: str) -> list[str]:
        return list(self._addresses[:most])
