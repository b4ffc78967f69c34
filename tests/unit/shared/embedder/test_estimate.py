import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.embedder.estimate import EstimatedTokens, beginning, estimated, halves


@given(st.text(), st.text())
def test_the_estimate_never_falls_as_a_text_grows(text: str, more: str) -> None:
    shorter, longer = EstimatedTokens(100).count([text, text + more])

    assert shorter <= longer


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_beginning_is_the_longest_that_fits(text: str, limit: int) -> None:
    cut = beginning(text, limit)

    assert text.startswith(cut)
    assert estimated(cut) <= limit
    if cut != text:
        assert estimated(text[: len(cut) + 1]) > limit


@given(st.text(st.sampled_from("ab. \n。!é"), max_size=60).map(str.strip))  # as chunks are
def test_halves_are_the_whole_text_and_none_is_blank(text: str) -> None:
    parts = halves(text)

    if parts is None:
        assert len(text.split()) < 2
    else:
        assert "".join(parts) == text
        assert all(part.strip() for part in parts)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One sentence. Two of them. Three here.", "One sentence. "),
        ("No sentence ends in this", "No sentence "),
        ("これは文です。これも文です。", "これは文です。"),
        ("A. This long sentence has its only end at the start", "A. This long sentence has "),
        ("unbrokenword", "unbrok"),
    ],
)
def test_a_text_is_halved_where_it_hurts_least(text: str, first: str) -> None:
    parts = halves(text)

    assert parts is not None
    assert parts[0] == first


def test_one_character_has_no_halves() -> None:
    assert halves("x") is None
