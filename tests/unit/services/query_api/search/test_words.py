from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.query_api.search.words import adjacent, distinct_stems, occurring, stem, stems, weight, words


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


@pytest.mark.timeout(60)
def test_a_word_of_any_length_is_weighed_in_linear_time() -> None:
    assert weight("é" * 100_000) == weight("é" * 1_000) == weight("x" * 100_000)


_PARTS = st.sampled_from(
    ["nest", "studies", "study", "fly", "ies", "y", "s", "_", " ", "-", "é", "返品", "ก็", "ed", "ing", "2", "İ", "ß"]
)


@given(st.lists(st.lists(_PARTS, max_size=12).map("".join), max_size=4), st.lists(_PARTS, max_size=3).map("".join))
@example(["studies返品nests"], "study nest 返品")
@example(["understudy", "study"], "study")
@example(["İnest", "é nest", "nest"], "nest")
def test_stems_are_looked_for_as_they_are_split_off(texts: list[str], query: str) -> None:
    wanted = [*dict.fromkeys([*stems(words(query)), "nest", "study"])]
    pairs = {(first, second) for first in wanted for second in wanted}

    found = occurring(wanted, texts)

    assert [{each for bit, each in enumerate(wanted) if bits >> bit & 1} for bits in found] == [
        distinct_stems(words(text)) & {*wanted} for text in texts
    ]
    for text in texts:
        assert adjacent(pairs, text) == pairs & {*pairwise(stems(words(text)))}
