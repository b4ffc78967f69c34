from typing import Any

import pytest

from services.query_api.clients.asking import ClientMessage, turns_of
from services.query_api.http.problems import Problem
from shared.answers import ToolCall

CALL = {"id": "c1", "function": {"name": "search", "arguments": '{"query": "herons"}'}}


def test_roles_and_names_of_other_clients_are_understood() -> None:
    turns = turns_of(
        [
            ClientMessage(role="developer", content="Be brief."),
            ClientMessage(role="assistant", content=None),  # says nothing
            ClientMessage(role="function", content="", tool_name="search"),
        ]
    )

    assert [(turn.role, turn.content, turn.name) for turn in turns] == [
        ("system", "Be brief.", None),
        ("tool", "", "search"),
    ]


@pytest.mark.parametrize("arguments", ['{"query": "herons"}', {"query": "herons"}])
def test_a_tool_call_may_have_its_arguments_as_text_or_as_an_object(arguments: Any) -> None:
    call = {"id": "c1", "function": {"name": "search", "arguments": arguments}}

    [turn] = turns_of([ClientMessage(role="assistant", tool_calls=[call])])

    assert [(c.id, c.name) for c in turn.tool_calls] == [("c1", "search")]
    assert isinstance(turn.tool_calls[0], ToolCall)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (ClientMessage(role="robot"), "messages[0].role"),
        (ClientMessage(role="user", content=3), "messages[0].content"),
        (ClientMessage(role="user", content=[{}]), "messages[0].content[0]"),
        (ClientMessage(role="assistant", tool_calls=[{}]), "messages[0].tool_calls[0]"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(message: ClientMessage, field: str) -> None:
    with pytest.raises(Problem) as refused:
        turns_of([message])

    assert field in refused.value.sentence
