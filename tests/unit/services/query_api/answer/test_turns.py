import pytest

from services.query_api.answer.turns import ChatMessage, Wishes, text_of, turns_of
from services.query_api.http.problems import Problem


def test_parts_are_joined_by_line_breaks() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"text": "b"}], "content") == "a\nb"
    assert text_of(None, "content") == ""


def test_a_part_that_is_no_text_is_refused_by_its_place() -> None:
    message = ChatMessage(role="user", content=[{"type": "image_url", "image_url": "x"}])

    with pytest.raises(Problem, match="only text can be read") as refused:
        turns_of([message], "messages")
    assert "messages[0].content[0]" in refused.value.sentence


def test_style_may_come_under_three_names() -> None:
    wishes = Wishes(style="short", ai_style="plain", custom_twist="a rhyme")

    assert wishes.preferences.style == "short; plain; a rhyme"
    assert Wishes().preferences.style is None
