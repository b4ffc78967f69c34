"""OpenAI's `file_search` tool of the responses API: the vector store `documents` is searched for the answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from services.query_api.answer.answering import Answer, Retrieval
from services.query_api.clients.vector_stores import (
    ID,
    MaxResults,
    RankingOptions,
    attributes_of,
    check_store,
    file_of,
    filters_of,
)
from services.query_api.http.problems import invalid
from services.query_api.http.request import body_of
from services.query_api.search.filters import filter_of
from shared.answers import Passage
from shared.store import Filter

RESULTS: Final = "file_search_call.results"  # in `include`: the call shows what it found
_TYPE: Final = "file_search"


class FileSearchTool(msgspec.Struct, frozen=True, kw_only=True):
    """The tool as clients send it."""

    vector_store_ids: tuple[str, ...] = (ID,)
    max_num_results: MaxResults | None = None
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


def retrieval_of(tools: Sequence[Mapping[str, Any]], where: Filter, top_k: int | None) -> Retrieval | None:
    """Return the search that the tools ask for, narrowed by `where`, or None. `top_k` overrules the tool's number.

    Raises:
        Problem: 400, there are two such tools, or one has an invalid field; 404, another vector store is named;
            422, a filter isn't supported.
    """
    asked = [(number, tool) for number, tool in enumerate(tools) if tool.get("type") == _TYPE]
    if not asked:
        return None
    if len(asked) > 1:
        raise invalid(f"tools[{asked[1][0]}]", f"is a second {_TYPE}; one searches all documents")
    [(number, given)] = asked
    tool = body_of(given, FileSearchTool, f"tools[{number}]")
    for id_ in tool.vector_store_ids:
        check_store(id_)
    field = f"tools[{number}].filters"
    own = filter_of(filters_of(tool.filters, field) if tool.filters else None, field)
    least = tool.ranking_options.score_threshold if tool.ranking_options else None
    return Retrieval(
        top_k=top_k or tool.max_num_results or Retrieval().top_k,
        where=Filter(must=(*where.must, *own.must), must_not=(*where.must_not, *own.must_not)),
        min_score=least or None,  # clients send 0 for "as the server likes"
        gate="each" if least else None,
    )


def call_item(query: str, passages: Sequence[Passage], include: Sequence[Any]) -> dict[str, Any]:
    """Return the search as an item of a response's output; with its results if the client includes them."""
    return {
        "type": "file_search_call",
        "id": f"fs_{uuid4().hex}",
        "status": "completed",
        "queries": [query],
        "results": [_result(passage) for passage in passages] if RESULTS in include else None,
    }


def _result(passage: Passage) -> dict[str, Any]:
    return {
        **file_of(passage.metadata),
        "score": passage.score,
        "attributes": attributes_of(passage.metadata),
        "text": passage.shown,
    }


def file_citations(answer: Answer) -> list[dict[str, Any]]:
    """Return an annotation for each mark in the answer, in the order of the text.

    `index` is the mark's offset in characters.
    """
    marks = sorted(
        ((start, citation.passage) for citation in answer.citations for start, _ in citation.spans),
        key=lambda mark: (mark[0], mark[1].number),
    )
    return [{"type": "file_citation", "index": start, **file_of(passage.metadata)} for start, passage in marks]
