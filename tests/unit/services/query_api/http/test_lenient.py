"""What workflow tools send for texts, numbers and objects, and what of it is refused."""

from typing import Any

import msgspec
import pytest

from services.query_api.http.lenient import lenient
from services.query_api.http.problems import Problem


class Body(msgspec.Struct, rename="camel"):
    """Fields of each kind that a body has."""

    path: str = ""
    tags: list[str] | str | None = None
    subject_id: str | int | None = None
    top_k: int = 5
    filters: dict[str, Any] | str | None = None
    chunks: list[Any] | str | None = None
    stream: bool = False


@pytest.mark.parametrize(
    ("sent", "taken", "said"),
    [
        ({"path": 123}, {"path": "123"}, "path: the number 123 was taken as text"),
        ({"path": 1.5}, {"path": "1.5"}, "path: the number 1.5 was taken as text"),
        ({"tags": [1, "b"]}, {"tags": ["1", "b"]}, "tags: numbers were taken as texts"),
        ({"tags": 7}, {"tags": "7"}, "tags: the number 7 was taken as text"),
        ({"topK": " "}, {}, "topK: an empty text was taken as not given"),
        ({"filters": []}, {}, "filters: an empty list was taken as not given"),
    ],
)
def test_what_is_certain_is_taken_and_said(sent: dict[str, Any], taken: dict[str, Any], said: str) -> None:
    assert lenient(sent, Body) == (taken, {next(iter(sent)): said})


@pytest.mark.parametrize(
    "sent",
    [
        {"subjectId": 7, "topK": 5, "chunks": [], "tags": [], "stream": True},
        {
            "path": True,
            "tags": [None],
            "topK": "5",
            "filters": "",
            "other": 1,
        },  # as the body's type takes or refuses it
        {"path": "{{#each a}}{{b}}{{/each}}", "tags": "{{7*7}}"},
    ],
)
def test_nothing_else_is_changed(sent: dict[str, Any]) -> None:
    assert lenient(sent, Body) == (sent, {})


@pytest.mark.parametrize(
    "text", ["{{ $json.text }}", " ={{ $json.text }} ", "[object Object]", "[object Object],[object Object]"]
)
def test_an_expression_that_was_not_evaluated_is_refused(text: str) -> None:
    with pytest.raises(Problem, match=r"path: is .* an expression instead of its value"):
        lenient({"path": text}, Body)


def test_a_body_without_a_declared_type_is_taken_as_it_is() -> None:
    assert lenient({"a": 1}, dict[str, Any]) == ({"a": 1}, {})
