"""Dify's external knowledge: `POST /retrieval`. The knowledge id is a source, or `documents` for all of them."""

from typing import Annotated, Any, Final, Literal

import msgspec
from litestar.params import JSONBody

from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import FILTERS, post
from services.query_api.search.filters import filter_of, filters_joined, unknown_operator
from services.query_api.search.retrieval import Retriever

EVERYTHING: Final = "documents"
_OPERATORS: Final = {
    "is": "eq",
    "=": "eq",
    "in": "in",
    "is not": "ne",
    "≠": "ne",
    "not in": "nin",
    ">": "gt",
    "≥": "gte",
    "<": "lt",
    "≤": "lte",
    "after": "gt",
    "before": "lt",
    "start with": "prefix",
}


class RetrievalSetting(msgspec.Struct, frozen=True, kw_only=True):
    """How many results are wanted, and their least score."""

    top_k: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    score_threshold: float | None = None


class MetadataComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on fields of the metadata; `name` is a list in Dify's contract."""

    name: list[str] | str
    comparison_operator: str
    value: Any = None


class MetadataCondition(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions joined by "and"."""

    logical_operator: Literal["and", "or"] | None = None
    conditions: list[MetadataComparison] | None = None


class DifyRetrievalBody(msgspec.Struct, frozen=True, kw_only=True):
    """Dify's request."""

    query: str
    knowledge_id: str = EVERYTHING
    retrieval_setting: RetrievalSetting = RetrievalSetting()
    metadata_condition: MetadataCondition | None = None


class DifyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A passage, as Dify reads it."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]  # without null values, which Dify rejects


class DifyRecords(msgspec.Struct, frozen=True):
    """The passages for Dify."""

    records: list[DifyRecord]


@post("/retrieval", role="query", takes=FILTERS, refuses=(422,))
async def dify_retrieval(data: JSONBody[DifyRetrievalBody], request: ApiRequest) -> DifyRecords:
    """Find passages for Dify. An unknown knowledge id has no results."""
    setting = data.retrieval_setting
    found = await request.part(Retriever).search(
        request.user.tenant,
        not_blank(data.query, "query"),
        top_k=setting.top_k,
        where=filter_of(filters_of(data.knowledge_id, data.metadata_condition)),
    )
    return DifyRecords(
        [
            DifyRecord(
                content=hit.shown,
                score=hit.score,
                title=hit.metadata.get("title") or hit.metadata["path"],
                metadata={name: value for name, value in hit.metadata.items() if value is not None},
            )
            for hit in found.hits
            if hit.score >= (setting.score_threshold or 0.0)
        ]
    )


def filters_of(knowledge_id: str, condition: MetadataCondition | None) -> dict[str, Any]:
    """Return the filters of a search.

    Raises:
        Problem: 422, a comparison isn't supported; 400, two conditions contradict each other.
    """
    found: list[tuple[str, str, Any]] = []
    if knowledge_id not in ("", EVERYTHING):
        found.append(("source", "eq", knowledge_id))
    conditions = (condition.conditions if condition else None) or []
    if condition and condition.logical_operator == "or" and len(conditions) > 1:
        raise _impossible("logical_operator", "or")
    for each in conditions:
        if each.comparison_operator not in _OPERATORS:
            raise _impossible("comparison_operator", each.comparison_operator)
        names = [each.name] if isinstance(each.name, str) else each.name
        found += ((name, _OPERATORS[each.comparison_operator], each.value) for name in names)
    return filters_joined(found, "metadata_condition")


def _impossible(field: str, operator: str) -> Problem:
    known = f"{', '.join(_OPERATORS)} and `and`"
    return unknown_operator(f"metadata_condition.{field}", operator, f"{operator!r} is not supported; {known} are")
