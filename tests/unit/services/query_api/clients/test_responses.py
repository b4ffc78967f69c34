"""The tool `file_search` as a search, and what a reply shows of it."""

from typing import Any

import pytest

from services.query_api.answer.answering import Answer, Retrieval
from services.query_api.answer.citing import citations
from services.query_api.clients.responses import RESULTS, call_item, file_citations, messages_of, retrieval_of
from services.query_api.http.problems import Problem
from services.query_api.search.filters import filter_of
from shared.answers import Passage
from shared.store import Filter

TOOL: dict[str, Any] = {"type": "file_search", "vector_store_ids": ["documents"]}
FUNCTION = {"type": "function", "name": "tide"}
BIRDS = {"type": "eq", "key": "tags", "value": "birds"}


def a_passage(number: int, **metadata: Any) -> Passage:
    known = {"documentId": f"d{number}", "path": f"{number}.md", "tags": ["t"], "chunkOrder": 0}
    return Passage(number=number, text=f"Text {number}.", title="T", score=0.5, metadata=known | metadata)


def test_without_the_tool_nothing_is_asked_for() -> None:
    assert retrieval_of([], Retrieval()) is None
    assert retrieval_of([FUNCTION, {"type": "web_search"}], Retrieval(top_k=7)) is None


@pytest.mark.parametrize(
    ("given", "top_k", "expected"),
    [
        ({}, None, None),
        ({"max_num_results": 9}, None, 9),
        ({"max_num_results": 9}, 2, 2),
    ],
)
def test_the_request_s_number_of_passages_overrules_the_tool_s(
    given: dict[str, Any], top_k: int | None, expected: int | None
) -> None:
    assert retrieval_of([FUNCTION, TOOL | given], Retrieval(top_k=top_k)) == Retrieval(top_k=expected)


def test_the_tool_s_filters_narrow_the_request_s() -> None:
    own = filter_of({"source": "s", "not": {"language": "de"}})

    found = retrieval_of([TOOL | {"filters": BIRDS}], Retrieval(where=own))

    birds = filter_of({"tags": "birds"})
    assert found is not None
    assert found.where == Filter(must=(*own.must, *birds.must), must_not=own.must_not)


@pytest.mark.parametrize(
    ("given", "least", "gate"),
    [(0.4, 0.4, "each"), (0, None, None), (0.0, None, None), (None, None, None)],
)
def test_a_threshold_of_zero_leaves_the_gate_alone(given: float | None, least: float | None, gate: str | None) -> None:
    tool = TOOL | {"ranking_options": {"ranker": "auto", "score_threshold": given}}
    own = Retrieval(min_score=0.7, gate="best", language="de")

    found = retrieval_of([tool], Retrieval())

    assert found is not None
    assert (found.min_score, found.gate) == (least, gate)
    assert retrieval_of([tool], own) == own


@pytest.mark.parametrize(
    ("tools", "status", "said"),
    [
        ([TOOL, FUNCTION, TOOL], 400, r"tools\[2\]: is a second file_search"),
        ([FUNCTION, TOOL | {"max_num_results": 51}], 400, r"tools\[1\]"),
        ([TOOL | {"vector_store_ids": "documents"}], 400, r"tools\[0\]"),
        ([TOOL | {"vector_store_ids": ["documents", "vs_1"]}], 404, "no vector store 'vs_1'; there is 'documents'"),
        ([TOOL | {"filters": {"type": "near"}}], 422, r"tools\[0\]\.filters\.type: 'near'"),
    ],
)
def test_what_cannot_be_searched_is_refused_by_its_name(tools: list[Any], status: int, said: str) -> None:
    with pytest.raises(Problem, match=said) as refused:
        retrieval_of(tools, Retrieval())

    assert refused.value.status == status
    assert str(refused.value.details.get("field", "tools")).startswith("tools")


def test_a_message_that_is_none_is_refused_by_its_place() -> None:
    with pytest.raises(Problem, match=r"input\[1\]: role"):
        messages_of([{"type": "reasoning"}, {"role": 5, "content": "When is high water?"}])


def test_the_call_shows_its_results_only_where_they_are_included() -> None:
    passages = (a_passage(1, originalFilename="one.pdf"), a_passage(2))

    shown = call_item("q", passages, [RESULTS, "x"])
    hidden = [call_item("q", passages, include) for include in ((), ["x"])]

    assert (shown["status"], shown["queries"]) == ("completed", ["q"])
    assert [(each["file_id"], each["filename"], each["text"]) for each in shown["results"]] == [
        ("d1", "one.pdf", "Text 1."),
        ("d2", "2.md", "Text 2."),
    ]
    assert "tags" not in shown["results"][0]["attributes"]  # a list, which attributes can't hold
    assert [(each["status"], each["results"]) for each in hidden] == [("completed", None)] * 2


def test_each_mark_is_a_citation_in_the_order_of_the_text() -> None:
    passages = (a_passage(1), a_passage(2), a_passage(3))
    text = "B [2]. A [1, 2]. Again [2]."
    answer = Answer(text=text, model="m", passages=passages, citations=citations(text, passages))

    assert [(each["index"], each["file_id"]) for each in file_citations(answer)] == [
        (2, "d2"),
        (9, "d1"),
        (9, "d2"),
        (23, "d2"),
    ]
