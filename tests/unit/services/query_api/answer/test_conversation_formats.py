from typing import Any

import pytest

from services.query_api.answer.conversation_formats import (
    ChatMessage,
    Options,
    Wishes,
    content_of,
    image_addresses,
    turns_of,
)
from services.query_api.http.problems import Problem
from shared.answers import ToolCall


def test_parts_are_joined_by_line_breaks() -> None:
    assert content_of([{"type": "text", "text": "a"}, {"text": "b"}], "content") == ("a\nb", ())
    assert content_of(None, "content") == ("", ())


def test_images_of_all_clients_become_addresses() -> None:
    png, jpeg = "data:image/png;base64,iVBORw0KGgo=", "data:image/jpeg;base64,/9j/4AAQ"
    parts = [{"type": "image_url", "image_url": {"url": png}}, {"type": "input_image", "image_url": jpeg}]
    message = ChatMessage(role="user", content=parts, images=["iVBORw0KGgo="])

    [turn] = turns_of([message])

    assert (turn.content, turn.images) == ("", (png, jpeg, png))
    assert image_addresses(["/9j/4AAQ", jpeg]) == (jpeg, jpeg)


def test_a_part_that_no_model_can_read_is_refused_by_its_place() -> None:
    message = ChatMessage(role="user", content=[{"type": "input_audio", "input_audio": {"data": "x"}}])

    with pytest.raises(Problem, match="only text and images can be read") as refused:
        turns_of([message], "messages")
    assert "messages[0].content[0]" in refused.value.sentence


def test_the_options_that_sample_are_passed_on() -> None:
    sampling = Options(temperature=0.3, num_predict=-1, top_k=7, presence_penalty=0.0, stop="END").sampling

    assert sampling == {"temperature": 0.3, "top_k": 7, "presence_penalty": 0.0, "stop": ["END"]}


def test_style_may_come_under_three_names() -> None:
    wishes = Wishes(style="short", ai_style="plain", custom_twist="a rhyme")

    assert wishes.preferences.style == "short; plain; a rhyme"
    assert Wishes().preferences.style is None


def test_roles_and_names_of_other_clients_are_understood() -> None:
    turns = turns_of(
        [
            ChatMessage(role="developer", content="Be brief."),
            ChatMessage(role="assistant", content=None),  # says nothing
            ChatMessage(role="function", content="", tool_name="search"),
        ]
    )

    assert [(turn.role, turn.content, turn.name) for turn in turns] == [
        ("system", "Be brief.", None),
        ("tool", "", "search"),
    ]


@pytest.mark.parametrize("arguments", ['{"query": "herons"}', {"query": "herons"}])
def test_a_tool_call_may_have_its_arguments_as_text_or_as_an_object(arguments: Any) -> None:
    call = {"id": "c1", "function": {"name": "search", "arguments": arguments}}

    [turn] = turns_of([ChatMessage(role="assistant", tool_calls=[call])])

    assert [(c.id, c.name) for c in turn.tool_calls] == [("c1", "search")]
    assert isinstance(turn.tool_calls[0], ToolCall)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (ChatMessage(role="robot"), "messages[0].role"),
        (ChatMessage(role="user", content=3), "messages[0].content"),
        (ChatMessage(role="user", content=[{}]), "messages[0].content[0]"),
        (ChatMessage(role="assistant", tool_calls=[{}]), "messages[0].tool_calls[0]"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(message: ChatMessage, field: str) -> None:
    with pytest.raises(Problem) as refused:
        turns_of([message])

    assert field in refused.value.sentence
