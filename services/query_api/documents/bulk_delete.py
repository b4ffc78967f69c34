"""Deletes many documents by filter. The first request counts them; later requests confirm that count."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromQuery

from services.query_api.documents.document_routes import DocumentViews, tags_in
from services.query_api.documents.selection import Selection, count_of, next_page, selection
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.reply_warnings import check_filled
from services.query_api.http.request import ApiRequest, body_of, wait_of
from services.query_api.http.route_decorator import FILTERS, JSON, delete
from services.query_api.ingest.submissions import Submissions
from shared.errors import Rejected
from shared.ids import document_id as id_of
from shared.runtime.resources import Resources
from shared.state.ledger import Entry
from shared.submission import deletion


class DeleteSelection(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which documents to delete: those that match `filters`, in the form of a search's filters, or `all`."""

    filters: dict[str, Any] = {}
    all: bool = False
    confirm: int | None = None  # the count that the caller saw
    cursor: str | None = None

    def chosen(self, tenant: str) -> Selection:
        """Return the selected documents.

        Raises:
            Problem: 400 or 422, nothing is selected, or a filter is invalid.
        """
        if self.all == bool(self.filters):
            raise invalid("all", "must be true when no filters are given, and left out otherwise")
        check_filled("filters", self.filters)
        return selection(tenant, self.filters)


class DeletedDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The outcome for one document: `deleted`, `failed`, or `accepted` if the deletion is still in progress."""

    document_id: str
    status: str
    error: str | None = None


class DeletedPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many documents match, and the outcome for those of this page."""

    matched: int
    items: list[DeletedDocument]
    next_cursor: str | None
    message: str


@dataclass(frozen=True, kw_only=True)
class DeleteQuery:
    """Which documents to delete, if the query says it instead of a body."""

    source: FromQuery[list[str] | None] = None
    path: FromQuery[str | None] = None
    tags: FromQuery[list[str] | None] = None
    all: FromQuery[bool] = False
    confirm: FromQuery[int | None] = None
    cursor: FromQuery[str | None] = None


@delete(
    "/rag/documents",
    role="ingest",
    line="delete all documents that fit filters, once their number is confirmed",
    takes=FILTERS,
    refuses=(404, 409, 422),
    body={JSON: DeleteSelection},
    query=DeleteQuery,
)
async def rag_documents_delete(request: ApiRequest, wanted: NamedDependency[DeleteQuery]) -> DeletedPage:
    """Delete documents by filter: in the body, or as `source`, `tags` or `all` in the query.

    `source` and `path` in the query name one document, which is deleted at once; it is a 404 if there is none.
    Without `confirm`, documents are only counted. With that count as `confirm`, each request deletes one page. The
    reply is 409 when the count has changed since.
    """
    submissions = request.part(Submissions)
    named = await _named(request, wanted)
    if named is not None:
        outcome = await _removed(submissions, named, wait_of(request)[0])
        return DeletedPage(matched=1, items=[outcome], next_cursor=None, message="1 deletion accepted")
    selection = await _asked(request, wanted)
    chosen = selection.chosen(request.user.tenant)
    if selection.confirm is None:
        matched = await count_of(request.part(Resources), chosen)
        message = f"nothing was deleted yet: send confirm={matched} to delete {matched} document{'s' * (matched > 1)}"
        message = message if matched else "no document matches"
        return DeletedPage(matched=matched, items=[], next_cursor=None, message=message)
    entries, following = await next_page(request, "delete", chosen, confirm=selection.confirm, cursor=selection.cursor)
    wait_s, _ = wait_of(request)
    items = await asyncio.gather(*(_removed(submissions, entry, wait_s) for entry in entries))
    message = f"{len(items)} deletions accepted"
    return DeletedPage(matched=selection.confirm, items=items, next_cursor=following, message=message)


async def _named(request: ApiRequest, wanted: DeleteQuery) -> Entry | None:
    """Return the document that `source` and `path` in the query name; None if there is no `path`.

    Raises:
        Problem: 400, they don't name one document; 404, there is no such document.
    """
    if wanted.path is None:
        return None
    source = wanted.source or [""]
    for name, value in (("source", source[0] if len(source) == 1 else ""), ("path", wanted.path)):
        if not value:
            raise invalid(name, "must be given once and not be empty, because source and path name one document")
    if unknown := sorted(set(request.query_params) - {"source", "path"}):
        raise invalid(unknown[0], "can't be combined with path, which names one document")
    if await request.body():
        raise invalid("path", "can't be combined with a body")
    tenant = request.user.tenant
    return await request.part(DocumentViews).entry(tenant, id_of(tenant, source[0], wanted.path))


async def _asked(request: ApiRequest, wanted: DeleteQuery) -> DeleteSelection:
    if await request.body():
        return body_of(await request.json(), DeleteSelection, strict=True)
    if "" in (wanted.source or ()):
        raise invalid("source", "must not be empty")
    named = {"source": wanted.source, "tags": tags_in(request, wanted.tags)}
    filters = {name: values for name, values in named.items() if values}
    return DeleteSelection(filters=filters, all=wanted.all, confirm=wanted.confirm, cursor=wanted.cursor)


async def _removed(submissions: Submissions, entry: Entry, wait_s: float) -> DeletedDocument:
    try:
        receipt = await submissions.submit(deletion(entry), of_many=True)
    except (Problem, Rejected) as error:
        return DeletedDocument(document_id=entry.document_id, status="failed", error=error.sentence)
    ended = await submissions.end(receipt, wait_s)
    if ended is None:
        return DeletedDocument(document_id=entry.document_id, status="accepted")
    return DeletedDocument(document_id=entry.document_id, status=ended.last.status, error=ended.last.error)
