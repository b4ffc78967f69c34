"""OpenAI's vector-store search. All documents of the caller's tenant are one store, named `documents`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar.params import FromPath, JSONBody

from services.query_api.documents.listing import of_tenant
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import FILTERS, get, post
from services.query_api.search.filters import OPERATORS, filter_of, filters_joined, unknown_operator
from services.query_api.search.results import Found
from services.query_api.search.retrieval import Retriever
from services.query_api.search.search import MOST_QUERIES
from shared.runtime.resources import Resources

ID: Final = "documents"
_ENDED: Final = ("created", "updated", "unchanged")
_COMPARISONS: Final = OPERATORS - {"prefix"}
MaxResults = Annotated[int, msgspec.Meta(ge=1, le=50)]


class RankingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How results are chosen."""

    score_threshold: float | None = None


class VectorStoreSearchBody(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for."""

    query: str | list[str]
    max_num_results: MaxResults | None = None
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


class VectorStoreCard(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="vector_store"):
    """The vector store, as OpenAI's API shows it."""

    id: str = ID
    created_at: int = 0
    name: str = ID
    status: Literal["completed", "in_progress"]
    usage_bytes: int = 0
    file_counts: dict[str, int]
    metadata: dict[str, Any] = {}
    last_active_at: int | None = None


class VectorStoreList(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """OpenAI's list of vector stores."""

    data: list[VectorStoreCard]
    first_id: str = ID
    last_id: str = ID
    has_more: bool = False


class VectorStoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """A passage."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: list[dict[str, str]]


class VectorStoreResults(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="vector_store.search_results.page"
):
    """OpenAI's page of results."""

    search_query: list[str]
    data: list[VectorStoreResult]
    has_more: bool = False
    next_page: str | None = None


def filters_of(given: Mapping[str, Any], field: str = "filters") -> dict[str, Any]:
    """Return OpenAI's filter (a comparison, or `and` of several) as the filters of a search.

    Raises:
        Problem: 422, a comparison isn't supported; 400, the value is not a filter.
    """
    return filters_joined(_conditions(given, field), field)


def _conditions(given: Mapping[str, Any], field: str) -> Iterator[tuple[str, str, Any]]:
    kind = given.get("type")
    if kind == "and":
        parts = given.get("filters")
        if not isinstance(parts, list):
            raise invalid(f"{field}.filters", "must be a list")
        for number, part in enumerate(parts):
            if not isinstance(part, Mapping):
                raise invalid(f"{field}.filters[{number}]", "must be an object")
            yield from _conditions(part, f"{field}.filters[{number}]")
        return
    if not isinstance(kind, str):
        raise invalid(f"{field}.type", f"must be one of {', '.join(sorted(_COMPARISONS))} and `and`")
    if kind not in _COMPARISONS:
        known = f"{', '.join(sorted(_COMPARISONS))} and `and`"
        raise unknown_operator(f"{field}.type", kind, f"{kind!r} is not supported; {known} are")
    if not isinstance(given.get("key"), str) or "value" not in given:
        raise invalid(field, "must have a key and a value")
    yield given["key"], kind, given["value"]


def check_store(id_: str, field: str = "vector_store_id") -> None:
    """Raise a 404 that names the field if the id isn't the store's."""
    if id_ != ID:
        raise Problem(404, f"there is no vector store {id_!r}; there is {ID!r}", details={"field": field})


@get("/v1/vector_stores", role="query")
async def openai_vector_stores(request: ApiRequest) -> VectorStoreList:
    """List the store."""
    return VectorStoreList(data=[await openai_vector_store.fn(ID, request)])


@get("/v1/vector_stores/{id_:str}", role="query")
async def openai_vector_store(id_: FromPath[str], request: ApiRequest) -> VectorStoreCard:
    """Show the store."""
    check_store(id_)
    statuses = await request.part(Resources).ledger.statuses(of_tenant(request.user.tenant))
    total, failed = sum(statuses.values()), statuses.get("failed", 0)
    done = sum(statuses.get(each, 0) for each in _ENDED)
    waiting = total - done - failed
    counts = {"completed": done, "failed": failed, "in_progress": waiting, "cancelled": 0, "total": total}
    return VectorStoreCard(status="in_progress" if waiting else "completed", file_counts=counts)


@post("/v1/vector_stores/{id_:str}/search", role="query", takes=FILTERS, refuses=(422,))
async def openai_vector_store_search(
    id_: FromPath[str], data: JSONBody[VectorStoreSearchBody], request: ApiRequest
) -> VectorStoreResults:
    """Find passages."""
    check_store(id_)
    queries = [data.query] if isinstance(data.query, str) else data.query
    if not 0 < len(queries) <= MOST_QUERIES:
        raise invalid("query", f"has {len(queries)} queries; allowed are 1 to {MOST_QUERIES}")
    least = (data.ranking_options.score_threshold if data.ranking_options else None) or 0.0
    where = filter_of(filters_of(data.filters) if data.filters else None)
    retriever, most = request.part(Retriever), data.max_num_results or 10
    best = dict[str, Found]()
    for query in queries:
        found = await retriever.search(request.user.tenant, not_blank(query, "query"), top_k=most, where=where)
        for hit in found.hits:
            chunk = hit.metadata["chunkId"]
            if hit.score >= least and (chunk not in best or hit.score > best[chunk].score):
                best[chunk] = hit
    hits = list(best.values())  # those of one query are in their order, which may be a cross-encoder's
    if len(queries) > 1:
        hits = sorted(hits, key=lambda hit: -hit.score)[:most]
    results = [
        VectorStoreResult(
            **file_of(hit.metadata),
            score=hit.score,
            attributes=attributes_of(hit.metadata),
            content=[{"type": "text", "text": hit.shown}],
        )
        for hit in hits
    ]
    return VectorStoreResults(search_query=queries, data=results)


def file_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the id and name by which OpenAI's objects tell a passage's file; without a file, its document's path."""
    return {"file_id": metadata["documentId"], "filename": metadata.get("originalFilename") or metadata["path"]}


def attributes_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that OpenAI's attributes can hold: texts, numbers and booleans."""
    return {name: value for name, value in metadata.items() if isinstance(value, str | int | float)}
