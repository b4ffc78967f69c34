"""Comparisons of other protocols become filters that `/rag/search` takes."""

from typing import Any

import pytest

from services.query_api.clients.dify import MetadataComparison, MetadataCondition
from services.query_api.clients.dify import filters_of as dify_filters
from services.query_api.clients.vector_stores import filters_of as openai_filters
from services.query_api.http.problems import Problem
from services.query_api.search.filters import filter_of


def a_comparison(kind: str, key: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


@pytest.mark.parametrize(
    ("given", "filters"),
    [
        (a_comparison("eq", "source", "s"), {"source": "s"}),
        (a_comparison("in", "tags", ["a", "b"]), {"tags": ["a", "b"]}),
        (a_comparison("ne", "tags", "a"), {"not": {"tags": ["a"]}}),
        (a_comparison("gte", "year", 2020), {"year": {"gte": 2020}}),
        (
            {
                "type": "and",
                "filters": [
                    a_comparison("gte", "year", 2020),
                    a_comparison("lt", "year", 2030),
                    {"type": "and", "filters": [a_comparison("nin", "tags", ["a"]), a_comparison("ne", "tags", "b")]},
                ],
            },
            {"year": {"gte": 2020, "lt": 2030}, "not": {"tags": ["a", "b"]}},
        ),
    ],
)
def test_openai_s_comparisons(given: dict[str, Any], filters: dict[str, Any]) -> None:
    assert openai_filters(given) == filters
    assert filter_of(filters) is not None  # the search takes them


def test_dify_s_comparisons() -> None:
    asked = [("category", "is not", "old"), ("year", "≥", 2020), ("path", "start with", "docs/"), ("lang", "is", "en")]
    conditions = [MetadataComparison(name=[name], comparison_operator=how, value=value) for name, how, value in asked]

    filters = dify_filters("wiki", MetadataCondition(conditions=conditions))

    assert filters == {
        "source": "wiki",
        "lang": "en",
        "year": {"gte": 2020},
        "path": {"prefix": "docs/"},
        "not": {"category": ["old"]},
    }
    assert filter_of(filters) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"type": "eq", "key": "a"},
        a_comparison("eq", "a", [1]),
        a_comparison("in", "a", 1),
        {"type": "and", "filters": [a_comparison("eq", "a", 1), a_comparison("eq", "a", 2)]},
        {"type": "and", "filters": [a_comparison("gt", "a", 1), a_comparison("gt", "a", 2)]},
        {"type": "and", "filters": "x"},
        {"type": "and", "filters": ["x"]},
    ],
)
def test_what_is_no_filter_is_a_400(given: dict[str, Any]) -> None:
    with pytest.raises(Problem) as refused:
        openai_filters(given)
    assert refused.value.status == 400


def test_what_cannot_be_compared_is_a_422_that_names_it() -> None:
    with pytest.raises(Problem, match="'or' is not supported; eq, gt, ") as refused:
        openai_filters({"type": "or", "filters": []})
    assert (refused.value.status, refused.value.code) == (422, "UNKNOWN_OPERATOR")
