"""`POST /rag/search`: searches over HTTP."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, UnsetType

from services.query_api.http.auth import needs
from services.query_api.http.lanes import FILTERS, in_lane
from services.query_api.http.problems import invalid
from services.query_api.http.replies import replies
from services.query_api.http.request import ApiRequest, body_of, parse_json
from services.query_api.search.arranging import by_document, diverse, of_each_document, weighted
from services.query_api.search.expansion import QueryExpander, merged
from services.query_api.search.facets import FacetValues, fields_of
from services.query_api.search.filters import filter_of
from services.query_api.search.gate import GateMode, RelevanceGate, usable
from services.query_api.search.past import PastIndexes
from services.query_api.search.results import Expanded, Explanation, Found, Results
from services.query_api.search.retrieval import DEPTH, Mode, Retriever, Score, TopK
from shared.answers import Turn
from shared.answers.follow_up import spelled_out
from shared.inputs.language_variants import variant_text
from shared.store import Filter

MOST = 1000  # offset and topK together are at most this
MOST_QUERIES = 32  # per batch
AT_ONCE = 4  # concurrent searches of one batch
MOST_EXPANDED = 100  # hits that can be joined with their neighbours
WIDER = 5  # factor by which more hits are searched if only some of them are shown


class EarlierMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier message of the conversation; other fields are ignored."""

    role: Literal["system", "user", "assistant"]
    content: str


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A search: the query, its filters, and how results are chosen."""

    query: str
    as_of: int | str | None = None  # search the index of a past moment: docs/reindex.md
    top_k: TopK = 5
    offset: Annotated[int, msgspec.Meta(ge=0, lt=MOST, description="How many results to skip.")] = 0
    filters: dict[str, Any] | str | None = None
    conversation_history: list[EarlierMessage] = []  # used to complete a follow-up question, as for answers
    mode: Mode = "hybrid"
    min_score: Score = 0.0  # the relevance gate: without it, every hit is shown
    gate: GateMode = "each"
    per_document: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None  # most results per document
    group_by: Literal["document"] | None = None  # then topK and offset count documents
    expansion: Literal["model"] | None = None  # the configured model writes related questions, which are searched, too
    rerank: Literal["weights", "model", "off"] | None = None  # how the first hits are ordered; scores don't change
    diversity: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0  # weight of the similarity to better results
    expand: Annotated[int, msgspec.Meta(ge=0, le=5)] = 0  # neighbouring chunks to add on each side
    language: str | None = None  # of the text to show, if a ready-made chunk has several: docs/chunks.md
    facets: list[str] = []  # fields whose values are counted among the documents that match the filters
    explain: bool = False


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result."""

    text: str
    score: float
    metadata: dict[str, Any]
    expanded: Expanded | None = None
    explain: Explanation | None = None


class SearchGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The results of one document."""

    document_id: str
    title: str | None
    source: str
    path: str
    score: float  # of the best result
    results: list[SearchHit]


class Timings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds."""

    embed_ms: float
    store_ms: float
    fuse_ms: float
    rerank_ms: float | UnsetType = UNSET  # if a cross-encoder is configured


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results, best first. With `groupBy`, `groups` holds them by document instead."""

    results: list[SearchHit]
    groups: list[SearchGroup] | None = None
    facets: FacetValues | None = None  # by field, most frequent values first
    warnings: list[str] = []
    query: str | None = None  # what was searched for, with `explain`
    related: list[str] | None = None  # with `explain`: the related questions that were searched
    timings: Timings | None = None


class SearchBatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """Several searches."""

    queries: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, max_length=MOST_QUERIES)]


class SearchBatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to each search, in order."""

    replies: list[SearchReply]


class Searching(NamedTuple):
    """What the routes of this module work with. One dependency, because the framework runs a task for each of several.

    `past` are the indexes of past moments.
    """

    retriever: Retriever
    past: PastIndexes
    expander: QueryExpander


def question_of(value: str, field: str) -> str:
    """Return the text to search for. Raises a 400 if it is blank."""
    if not value.strip():
        raise invalid(field, "must not be empty")
    return value


def filters_of(value: dict[str, Any] | str | None, field: str = "filters") -> Filter:
    """Return the filters, from an object or from an object as a JSON string."""
    if isinstance(value, str):
        value = parse_json(value, field) if value.strip() else None
        if not isinstance(value, dict | None):
            raise invalid(field, "must be an object")
    return filter_of(value, field)


@post(
    "/rag/search",
    operation_id="rag_search",
    guards=[needs("query")],
    opt=in_lane("ask", "find passages: query, topK, filters", takes=FILTERS) | replies(409, 422),
    status_code=200,
)
async def rag_search(
    data: JSONBody[SearchBody],
    request: ApiRequest,
    searching: NamedDependency[Searching],
) -> SearchReply:
    """Find passages of the indexed documents by meaning and by words."""
    retriever, past, expander = searching
    where = filters_of(data.filters)
    if data.as_of is not None:
        retriever = await past.retriever(data.as_of, "asOf", with_cost=request.user.may("operator"))
    return await _replied(retriever, expander, request.user.tenant, data, where)


@post(
    "/rag/search/batch",
    operation_id="rag_search_batch",
    guards=[needs("query")],
    opt=in_lane("ask", takes=FILTERS) | replies(409, 422),
    status_code=200,
)
async def rag_search_batch(
    data: JSONBody[SearchBatchBody],
    request: ApiRequest,
    searching: NamedDependency[Searching],
) -> SearchBatchReply:
    """Run several searches in one request. If any query is invalid, none is run."""
    retriever, past, expander = searching
    searches = []
    for number, item in enumerate(data.queries):
        body = body_of(item, SearchBody, f"queries[{number}]")
        question_of(body.query, f"queries[{number}].query")
        where, in_ = filters_of(body.filters, f"queries[{number}].filters"), retriever
        if body.as_of is not None:
            in_ = await past.retriever(body.as_of, f"queries[{number}].asOf", with_cost=request.user.may("operator"))
        searches.append((in_, body, where))
    turns = asyncio.Semaphore(AT_ONCE)

    async def search(in_: Retriever, body: SearchBody, where: Filter) -> SearchReply:
        async with turns:
            return await _replied(in_, expander, request.user.tenant, body, where)

    return SearchBatchReply(replies=await asyncio.gather(*(search(*each) for each in searches)))


async def _found(
    retriever: Retriever,
    expander: QueryExpander,
    tenant: str,
    query: str,
    body: SearchBody,
    *,
    where: Filter,
    top_k: int,
) -> tuple[Results, list[str], list[Found]]:
    """Return the results of the query, the related questions, and the hits of query and questions together."""
    if body.expansion is None:
        rerank = body.rerank in (None, "model")
        found = await retriever.search(tenant, query, top_k=top_k, where=where, mode=body.mode, rerank=rerank)
        return found, [], found.hits
    if body.rerank == "model":
        raise invalid("expansion", 'is not possible with rerank "model"')
    expander.check()
    related, warnings = await expander.related(query)
    found, *others = await asyncio.gather(
        *(
            retriever.search(tenant, each, top_k=top_k, where=where, mode=body.mode, rerank=False)
            for each in (query, *related)
        )
    )
    hits = merged(found.hits, [(each, more.hits) for each, more in zip(related, others, strict=True)])
    found = msgspec.structs.replace(found, warnings=[*found.warnings, *warnings])
    return found, related, hits if related else found.hits


async def _replied(
    retriever: Retriever, expander: QueryExpander, tenant: str, body: SearchBody, where: Filter
) -> SearchReply:
    end = body.offset + body.top_k
    if end > MOST:
        raise invalid("offset", f"{body.offset} and topK {body.top_k} reach beyond the first {MOST} results")
    picky = body.group_by is not None or body.per_document is not None or body.diversity > 0 or body.rerank == "weights"
    question = question_of(body.query, "query")
    turns = [Turn(role=each.role, content=each.content) for each in body.conversation_history]
    searched = spelled_out([*turns, Turn(role="user", content=question)])
    if body.rerank == "model" and not retriever.reranks:
        raise invalid("rerank", "model needs a cross-encoder, but SLUICE_RERANK names none")
    fields_of(body.facets)  # before anything is searched
    reach = min(MOST, max(2 * DEPTH, WIDER * end)) if picky else end
    finding = _found(retriever, expander, tenant, searched, body, where=where, top_k=reach)
    facets: FacetValues = {}
    doubts: list[str] = []
    if body.facets:
        (found, related, hits), (facets, doubts) = await asyncio.gather(
            finding, retriever.facets(tenant, body.facets, where)
        )
    else:  # two tasks less
        found, related, hits = await finding
    hits = usable(hits, RelevanceGate(body.min_score, body.gate))
    if body.rerank == "weights":
        hits = [*weighted(searched, hits[: 2 * DEPTH]), *hits[2 * DEPTH :]]
    if body.group_by is not None:
        groups = by_document(of_each_document(hits, body.per_document or 3))[body.offset : end]
        hits = [hit for group in groups for hit in group]
    else:
        groups = None
        if body.per_document is not None:
            hits = of_each_document(hits, body.per_document)
        if body.diversity > 0:
            hits = diverse(hits[: 2 * DEPTH], body.diversity, end)
        hits = hits[body.offset : end]
    if body.expand and len(hits) > MOST_EXPANDED:
        raise invalid("expand", f"is allowed for at most {MOST_EXPANDED} results, not for {len(hits)}")
    expanded = await retriever.expanded(hits, body.expand) if body.expand else [None] * len(hits)
    shown = [
        SearchHit(
            text=_in_language(hit, body.language),
            score=hit.score,
            metadata=hit.metadata,
            expanded=around,
            explain=hit.explanation if body.explain else None,
        )
        for hit, around in zip(hits, expanded, strict=True)
    ]
    return SearchReply(
        results=[] if groups is not None else shown,
        groups=None if groups is None else _groups(groups, shown),
        facets=facets if body.facets else None,
        warnings=[*found.warnings, *doubts],
        query=searched if body.explain else None,
        related=related if body.explain and body.expansion is not None else None,
        timings=_timings(found) if body.explain else None,
    )


def _timings(found: Results) -> Timings:
    return Timings(
        embed_ms=found.embed_ms,
        store_ms=found.store_ms,
        fuse_ms=found.fuse_ms,
        rerank_ms=UNSET if found.rerank_ms is None else found.rerank_ms,
    )


def _in_language(hit: Found, language: str | None) -> str:
    """Return the text of a ready-made chunk in the language, or the text that it shows otherwise."""
    return (variant_text(hit.metadata, language) if language else None) or hit.text


def _groups(groups: Sequence[Sequence[Found]], shown: Sequence[SearchHit]) -> list[SearchGroup]:
    following = iter(shown)
    return [
        SearchGroup(
            document_id=group[0].metadata["documentId"],
            title=group[0].metadata.get("title"),
            source=group[0].metadata["source"],
            path=group[0].metadata["path"],
            score=max(hit.score for hit in group),
            results=list(itertools.islice(following, len(group))),
        )
        for group in groups
    ]
