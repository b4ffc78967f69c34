"""Selects the documents of a tenant that match filters, or all of them."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from services.query_api.documents.listing import DELETED
from services.query_api.http.problems import invalid
from services.query_api.search.filters import filter_of
from shared.state.index import Index
from shared.state.ledger import Entry, Ledger
from shared.store import Condition, Filter, Ids, Match, each_page

PAGE = 256  # documents per request, and per page while they are counted
_IN_LEDGER = frozenset({"source", "tags", "tagsAll", "documentIds"})


class Selection(NamedTuple):
    """A set of documents of one tenant."""

    tenant: str
    where: Filter
    by_chunks: bool  # whether chunks are searched: the ledger has no metadata


def selection(tenant: str, filters: Mapping[str, Any], *, gone: bool = False) -> Selection:
    """Return the tenant's documents that match; with `gone`, deleted ones, too.

    Raises:
        Problem: 400 or 422, as `filter_of`.
    """
    where = filter_of(filters)
    if not filters.keys() <= _IN_LEDGER or not all(isinstance(condition, Match) for condition in where.must):
        return Selection(tenant, where, by_chunks=True)
    must = tuple(_of_entry(condition) for condition in where.must)
    hidden = () if gone else DELETED
    return Selection(tenant, Filter(must=(Match("tenant", (tenant,)), *must), must_not=hidden), by_chunks=False)


def _of_entry(condition: Condition) -> Condition:
    """Return a condition on chunks as a condition on ledger entries."""
    assert isinstance(condition, Match)
    field = condition.field.removeprefix("metadata.")
    if field != "documentId":
        return Match(field, condition.any_of)
    if not all(isinstance(value, str) for value in condition.any_of):
        raise invalid("filters.documentIds", "must be strings")
    return Ids(tuple(str(value) for value in condition.any_of))


class DocumentSelector:
    """Counts and lists the selected documents page by page."""

    def __init__(self, ledger: Ledger, index: Index) -> None:
        self._ledger = ledger
        self._index = index

    async def count(self, chosen: Selection) -> int:
        """Return how many documents there are."""
        if not chosen.by_chunks:
            return await self._ledger.count(chosen.where)
        return sum([len(names) async for names in each_page(partial(self._names, chosen))])

    async def page(self, chosen: Selection, after: str | None) -> tuple[list[Entry], str | None]:
        """Return at most PAGE of the documents, and the position of the next page."""
        if not chosen.by_chunks:
            return await self._ledger.scan(chosen.where, after=after, limit=PAGE)
        names, following = await self._names(chosen, after)
        entries = [await self._ledger.get(name) for name in names]
        return [entry for entry in entries if entry is not None], following

    async def _names(self, chosen: Selection, after: str | None) -> tuple[list[str], str | None]:
        return await self._index.documents_page(chosen.tenant, chosen.where, after=after, limit=PAGE)
