"""The one fetcher of the product: pages by HTTP, from where it is allowed, within bounds, with manners."""

from services.ingest_worker.fetch.fetcher import Fetch, FetchedPage, Fetcher, FetchLimits, fetcher_of
from services.ingest_worker.fetch.hosts import Busy

__all__ = ["Busy", "Fetch", "FetchLimits", "FetchedPage", "Fetcher", "fetcher_of"]
