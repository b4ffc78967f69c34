import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.search.words import stem, stems, weight, words


@pytest.mark.parametrize(
    ("word", "cut"),
    [
        ("herons", "heron"),
        ("studies", "study"),
        ("nesting", "nest"),
        ("stopped", "stop"),
        ("quickly", "quick"),
        ("glass", "glass"),
        ("bus", "bus"),
        ("Straße".lower(), "straße"),
        ("is", "is"),
    ],
)
def test_the_commonest_english_endings_go(word: str, cut: str) -> None:
    assert stem(word) == cut


def test_words_of_scripts_without_blanks_are_pairs() -> None:
    assert words("Two words") == ["two", "words"]
    assert words("返品期限") == ["返品", "品期", "期限"]
    assert stems(words("Herons nest")) == ["heron", "nest"]


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_words_of_ascii_are_found_as_those_of_other_text(text: str) -> None:
    assert words(text) == words(f"{text} é")[:-1]


def test_a_rarer_word_weighs_more_and_a_stop_word_nothing() -> None:
    assert weight("the") == 0
    assert 0 < weight("house") < weight("heron") < weight("xylotherapy")
