"""Fetches pages by HTTP: only from allowed addresses, within limits per page and per host."""

from services.ingest_worker.fetch.fetcher import FetchedPage, Fetcher, FetchLimits, fetcher_of
from services.ingest_worker.fetch.hosts import Busy

__all__ = ["Busy", "FetchLimits", "FetchedPage", "Fetcher", "fetcher_of"]
