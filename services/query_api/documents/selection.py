"""Selects the documents of a tenant that match filters, or all of them."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from services.query_api.documents.listing import DELETED
from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.request import ApiRequest
from services.query_api.search.filters import filter_of
from shared.ids import bytes_hash
from shared.runtime.resources import Resources
from shared.state.ledger import Entry
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


class _RunCursor(msgspec.Struct, frozen=True):
    """Where a run goes on."""

    after: str
    confirmed: int | None
    run: str  # the operation and its selection


async def count_of(base: Resources, chosen: Selection) -> int:
    """Return how many documents there are."""
    if not chosen.by_chunks:
        return await base.ledger.count(chosen.where)
    return sum([len(names) async for names in each_page(partial(_names, base, chosen))])


async def next_page(
    request: ApiRequest, does: str, chosen: Selection, *, confirm: int | None, cursor: str | None
) -> tuple[list[Entry], str | None]:
    """Return the next page of a run, and the cursor of the one after it.

    Raises:
        Problem: 400, the cursor belongs to another operation, selection or count; 409, `confirm` isn't the count.
    """
    base, signer, after = request.part(Resources), request.part(Signer), None
    run = bytes_hash(repr((does, chosen)).encode("utf-8", "surrogatepass"))
    if cursor is not None:
        found = signer.opened(cursor, _RunCursor, tenant=chosen.tenant)
        if (found.confirmed, found.run) != (confirm, run):
            raise invalid("cursor", "belongs to another selection or count")
        after = found.after
    elif confirm is not None and confirm != (matched := await count_of(base, chosen)):
        raise Problem(
            409,
            f"confirm={confirm}, but {matched} documents match now; nothing was done",
            code="COUNT_CHANGED",
            details={"matched": matched},
        )
    if chosen.by_chunks:
        names, following = await _names(base, chosen, after)
        entries = [entry for name in names if (entry := await base.ledger.get(name)) is not None]
    else:
        entries, following = await base.ledger.scan(chosen.where, after=after, limit=PAGE)
    if following is None:
        return entries, None
    return entries, signer.sign(_RunCursor(following, confirm, run), tenant=chosen.tenant)


async def _names(base: Resources, chosen: Selection, after: str | None) -> tuple[list[str], str | None]:
    found, following = await base.index.metadata_page(chosen.tenant, chosen.where, firsts=True, after=after, limit=PAGE)
    return [document_id for document_id, _ in found], following
