"""`POST /rag/search`: searches over HTTP.

check -> find (in `retrieval.py`) -> arrange -> reply
"""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from litestar.params import JSONBody

from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, body_of, not_blank, parse_json, tags_of
from services.query_api.http.route_decorator import FILTERS, post
from services.query_api.search import arranging
from services.query_api.search.arranging import GateMode, RelevanceGate
from services.query_api.search.facets import FacetValues, fields_of
from services.query_api.search.filters import filter_of
from services.query_api.search.past import PastIndexes
from services.query_api.search.query_expansion import QueryExpander, merged
from services.query_api.search.results import Expanded, Explanation, Found, Results, Timings
from services.query_api.search.retrieval import DEPTH, Mode, Retriever, Score, TopK
from shared.answers import Turn
from shared.answers.follow_up import spelled_out
from shared.inputs.metadata import text_in
from shared.settings import Settings
from shared.store import Filter

MOST = 1000  # offset and topK together are at most this
MOST_QUERIES = 32  # per batch
AT_ONCE = 4  # concurrent searches of one batch
MOST_EXPANDED = 100  # results that can be joined with their neighbours
RESULTS_OF_A_GROUP = 3  # at most, unless the request says otherwise
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


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results, best first. With `groupBy`, `groups` holds them by document instead."""

    results: list[SearchHit]
    groups: list[SearchGroup] | None = None
    facets: FacetValues | None = None  # by field, most frequent values first
    warnings: list[str] = []
    query: str | None = None  # what was searched for, with `explain`
    related: list[str] | None = None  # with `explain`: the related questions that were searched
    threshold: float | None = None  # with `explain`: the score from which answers use a passage (SLUICE_MIN_SCORE)
    timings: Timings | None = None


class SearchBatchBody(msgspec.Struct, frozen=True, kw_only=True):
    """Several searches."""

    queries: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, max_length=MOST_QUERIES)]


class SearchBatchReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to each search, in order."""

    replies: list[SearchReply]


_TAGS: Final = frozenset({"tags", "tagsAll"})


def filters_of(value: dict[str, Any] | str | None, field: str = "filters") -> Filter:
    """Return the filters, from an object or from an object as a JSON string."""
    if isinstance(value, str):
        value = parse_json(value, field) if value.strip() else None
        if not isinstance(value, dict | None):
            raise invalid(field, "must be an object")
    if not value:
        return Filter()
    # A text of tags is read as on the way in; where filters choose what is deleted, it is one tag.
    listed = {name: list(tags_of(value[name], name)) for name in _TAGS & value.keys() if isinstance(value[name], str)}
    return filter_of({**value, **listed}, field)


class CheckedSearch(NamedTuple):
    """A valid search."""

    request: ApiRequest
    retriever: Retriever  # of the index to search
    query: str  # completed with terms of earlier messages
    where: Filter
    facets: dict[str, str]  # paths in the metadata by the names of their fields
    end: int  # the page ends after so many results or groups
    reach: int  # so many hits are searched: more than are shown if only some of them are
    options: SearchBody


@post("/rag/search", role="query", line="find passages: query, topK, filters", takes=FILTERS, refuses=(409, 422))
async def rag_search(data: JSONBody[SearchBody], request: ApiRequest) -> SearchReply:
    """Find passages of the indexed documents by meaning and by words."""
    return await _reply(await _check(data, request))


@post("/rag/search/batch", role="query", takes=FILTERS, refuses=(409, 422))
async def rag_search_batch(data: JSONBody[SearchBatchBody], request: ApiRequest) -> SearchBatchReply:
    """Run several searches in one request. If any query is invalid, none is run."""
    searches = [
        await _check(body_of(item, SearchBody, f"queries[{number}]"), request, f"queries[{number}].")
        for number, item in enumerate(data.queries)
    ]
    turns = asyncio.Semaphore(AT_ONCE)

    async def reply(search: CheckedSearch) -> SearchReply:
        async with turns:
            return await _reply(search)

    return SearchBatchReply(replies=await asyncio.gather(*map(reply, searches)))


async def _check(options: SearchBody, request: ApiRequest, at: str = "") -> CheckedSearch:
    """Return the search that a body asks for, before anything is paid for. `at` precedes the names of its fields.

    Raises:
        Problem: 400 or 422, an option is invalid or can't be combined with another; 409, the past index isn't built.
    """
    of, retriever = options, request.part(Retriever)
    question = not_blank(of.query, f"{at}query")
    where = filters_of(of.filters, f"{at}filters")
    if of.as_of is not None:
        past, sees_cost = request.part(PastIndexes), request.user.may("operator")
        retriever = await past.retriever(of.as_of, f"{at}asOf", with_cost=sees_cost)
    end = of.offset + of.top_k
    if end > MOST:
        raise invalid(f"{at}offset", f"{of.offset} and topK {of.top_k} reach beyond the first {MOST} results")
    if of.expand:
        most = of.top_k * (of.per_document or RESULTS_OF_A_GROUP) if of.group_by else of.top_k
        if most > MOST_EXPANDED:
            raise invalid(f"{at}expand", f"is allowed for at most {MOST_EXPANDED} results, not for {most}")
    if of.rerank == "model" and retriever.reranker is None:
        raise invalid(f"{at}rerank", "model needs a cross-encoder, but SLUICE_RERANK names none")
    if of.expansion is not None:
        if of.rerank == "model":
            raise invalid(f"{at}expansion", 'is not possible with rerank "model"')
        request.part(QueryExpander).admit(request.user.key, f"{at}expansion")
    facets = fields_of(of.facets, f"{at}facets") if of.facets else {}
    picks = of.group_by is not None or of.per_document is not None or of.diversity > 0 or of.rerank == "weights"
    reach = min(MOST, max(2 * DEPTH, WIDER * end)) if picks else end
    turns = [Turn(role=each.role, content=each.content) for each in of.conversation_history]
    query = spelled_out([*turns, Turn(role="user", content=question)])
    return CheckedSearch(request, retriever, query, where, facets, end, reach, of)


async def _reply(search: CheckedSearch) -> SearchReply:
    """Run the steps of a search, and return its reply."""
    of, retriever, request = search.options, search.retriever, search.request
    doubts: list[str] = []
    facets: FacetValues | None = None
    if search.facets:
        found, (facets, doubts) = await asyncio.gather(
            _find(search), retriever.facets(request.user.tenant, search.facets, search.where)
        )
    else:  # two tasks less
        found = await _find(search)
    hits, groups = _arrange(search, found.hits)
    wider = (retriever.expanded(hit, of.expand) for hit in hits)
    expanded = await asyncio.gather(*wider) if of.expand else [None] * len(hits)
    shown = [
        SearchHit(
            text=text_in(of.language, hit.text, hit.metadata),
            score=hit.score,
            metadata=hit.metadata,
            expanded=around,
            explain=hit.explanation if of.explain else None,
        )
        for hit, around in zip(hits, expanded, strict=True)
    ]
    return SearchReply(
        results=[] if groups is not None else shown,
        groups=None if groups is None else _groups(groups, shown),
        facets=facets,
        warnings=[*found.warnings, *doubts],
        query=search.query if of.explain else None,
        related=found.related if of.explain and of.expansion is not None else None,
        threshold=request.part(Settings).min_score if of.explain else None,
        timings=found.timings if of.explain else None,
    )


async def _find(search: CheckedSearch) -> Results:
    """Return the hits of the query, and of the related questions if the search is to be expanded."""
    of, related = search.options, list[str]()
    rerank = of.rerank in (None, "model") and of.expansion is None
    warnings: list[str] = []
    if of.expansion is not None:
        related, warnings = await search.request.part(QueryExpander).related(search.query)
    tenant, where = search.request.user.tenant, search.where
    find = partial(search.retriever.search, tenant, top_k=search.reach, where=where, mode=of.mode, rerank=rerank)
    if not related:
        found = await find(search.query)
        return msgspec.structs.replace(found, warnings=[*found.warnings, *warnings]) if warnings else found
    found, *others = await asyncio.gather(*map(find, (search.query, *related)))
    hits = merged(found.hits, [(each, more.hits) for each, more in zip(related, others, strict=True)])
    return msgspec.structs.replace(found, hits=hits, related=related)


def _arrange(search: CheckedSearch, hits: Sequence[Found]) -> tuple[list[Found], list[list[Found]] | None]:
    """Return the hits of the page in their order, and the same by document if the search groups them."""
    of = search.options
    page = slice(of.offset, search.end)
    hits = arranging.usable(hits, RelevanceGate(of.min_score, of.gate))
    if of.rerank == "weights":
        hits = [*arranging.weighted(search.query, hits[: 2 * DEPTH]), *hits[2 * DEPTH :]]
    if of.group_by is not None:
        groups = arranging.by_document(arranging.of_each_document(hits, of.per_document or RESULTS_OF_A_GROUP))[page]
        return [hit for group in groups for hit in group], groups
    if of.per_document is not None:
        hits = arranging.of_each_document(hits, of.per_document)
    if of.diversity > 0:
        hits = arranging.diverse(hits[: 2 * DEPTH], of.diversity, search.end)
    return hits[page], None


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
