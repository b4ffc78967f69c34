"""What workflow tools send for texts, numbers and objects, and what of it is refused."""

from typing import Any

import msgspec
import pytest

from services.query_api.http.problems import Problem
from services.query_api.http.reply_warnings import lenient


class Body(msgspec.Struct, rename="camel"):
    """Fields of each kind that a body has."""

    path: str = ""
    tags: list[str] | str | None = None
    subject_id: str | int | None = None
    top_k: int = 5
    filters: dict[str, Any] | str | None = None
    chunks: list[Any] | str | None = None
    stream: bool = False
    title: str | None = None


class Asking(msgspec.Struct):
    """A body that must have a field."""

    query: str


@pytest.mark.parametrize(
    ("sent", "taken", "said"),
    [
        ({"path": 123}, {"path": "123"}, "path: the number 123 was taken as text"),
        ({"path": 1.5}, {"path": "1.5"}, "path: the number 1.5 was taken as text"),
        ({"tags": [1, "b"]}, {"tags": ["1", "b"]}, "tags: numbers were taken as texts"),
        ({"tags": 7}, {"tags": "7"}, "tags: the number 7 was taken as text"),
        ({"topK": " "}, {}, "topK: an empty text was taken as not given"),
        ({"stream": ""}, {}, "stream: an empty text was taken as not given"),
        (
            {"path": "undefined"},
            {"path": "undefined"},
            "path: 'undefined' was taken as a text; the workflow may have had no value",
        ),
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
    ("field", "value"),
    [
        ("title", "{{ $json.text }}"),
        ("title", " ={{ $json.text }} "),
        ("title", "[object Object]"),
        ("title", "[object Promise],[object Object]"),
        ("path", "docs/{{ $json.name }}.md"),
        ("tags[1]", ["x", "[object Object]"]),
        ("filters.a[0].b", {"a": [{"b": "{{ $json.b }}"}]}),
    ],
)
def test_an_expression_that_was_not_evaluated_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Problem, match=r"is .* an expression instead of its value") as refused:
        lenient({field.partition("[")[0].partition(".")[0]: value}, Body)

    assert refused.value.details == {"field": field}


@pytest.mark.parametrize(
    "sent",
    [
        {"title": "How {{ $json.text }} is written", "path": "{{cookiecutter.name}}/README.md"},
        {"title": "[object Object] is shown", "path": "a{{b $c"},
        {"chunks": ["{{ $json.text }}"]},
    ],
)
def test_what_only_speaks_of_expressions_is_taken(sent: dict[str, Any]) -> None:
    assert lenient(sent, Body) == (sent, {})


@pytest.mark.parametrize("sent", [{"json": {"query": "q"}, "binary": {}}, {"data": [{"query": "q"}], "path": "p"}])
def test_a_required_field_that_is_wrapped_is_pointed_out(sent: dict[str, Any]) -> None:
    with pytest.raises(Problem, match=r"query: is required; it is within (json|data)"):
        lenient(sent, Asking)


def test_a_body_without_a_declared_type_is_taken_as_it_is() -> None:
    assert lenient({"a": 1}, dict[str, Any]) == ({"a": 1}, {})
