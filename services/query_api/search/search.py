"""Search over HTTP."""

from typing import Any

import msgspec
from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from services.query_api.http.auth import needs
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest, parse_json
from services.query_api.search.filters import filter_of
from services.query_api.search.gate import Gate, GateMode, usable
from services.query_api.search.retrieval import Explanation, Mode, Retriever, Score, TopK
from shared.store import Filter


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What to search for, and where."""

    query: str
    top_k: TopK = 5
    filters: dict[str, Any] | str | None = None
    mode: Mode = "hybrid"
    min_score: Score = 0.0  # the relevance gate: without it every hit is shown
    gate: GateMode = "each"
    explain: bool = False


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A result."""

    text: str
    score: float
    metadata: dict[str, Any]
    explain: Explanation | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Milliseconds."""

    embed_ms: float
    store_ms: float
    fuse_ms: float


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results, best first."""

    results: list[SearchHit]
    warnings: list[str] = []
    timings: Timings | None = None


def question_of(value: str, field: str) -> str:
    """Return the text to search for, or raise the 400 of a blank one."""
    if not value.strip():
        raise invalid(field, "must not be empty")
    return value


def filters_of(value: dict[str, Any] | str | None, field: str = "filters") -> Filter:
    """Return the filter of an object, or of one sent as a JSON string."""
    if isinstance(value, str):
        value = parse_json(value, field) if value.strip() else None
        if not isinstance(value, dict | None):
            raise invalid(field, "must be an object")
    return filter_of(value, field)


@post("/rag/search", operation_id="rag_search", guards=[needs("query")], status_code=200)
async def rag_search(
    data: JSONBody[SearchBody], request: ApiRequest, retriever: NamedDependency[Retriever]
) -> SearchReply:
    """Find passages of the indexed documents by meaning and by words."""
    found = await retriever.search(
        request.user.tenant,
        question_of(data.query, "query"),
        top_k=data.top_k,
        where=filters_of(data.filters),
        mode=data.mode,
    )
    return SearchReply(
        results=[
            SearchHit(
                text=hit.text,
                score=hit.score,
                metadata=hit.metadata,
                explain=hit.explanation if data.explain else None,
            )
            for hit in usable(found.hits, Gate(data.min_score, data.gate))
        ],
        warnings=found.warnings,
        timings=Timings(embed_ms=found.embed_ms, store_ms=found.store_ms, fuse_ms=found.fuse_ms)
        if data.explain
        else None,
    )
