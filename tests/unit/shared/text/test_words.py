import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text.words import exact_forms, folded, paired, stem, stems, with_beginnings, with_folded, words


@pytest.mark.parametrize(
    ("word", "cut"),
    [
        ("herons", "heron"),
        ("studies", "study"),
        ("nesting", "nest"),
        ("stopped", "stop"),
        ("quickly", "quick"),
        ("acknowledgements", "acknowledg"),
        ("acknowledgment", "acknowledg"),
        ("acknowledged", "acknowledg"),
        ("statement", "statement"),
        ("glass", "glass"),
        ("bus", "bus"),
        ("Straße".lower(), "straße"),
        ("is", "is"),
        ("town77", "town77"),
        ("2022", "2022"),
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


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("東京都", "東京 京都"),
        ("京", "京"),
        ("I live in 東京都, Japan", "I live in 東京 京都 , Japan"),
        ("カタカナ", "カタ タカ カナ"),
        ("ที่นี่", "ที ีน นี"),  # without tone marks
        ("ນ້ຳ", "ນຳ"),
        ("한국어", "한국 국어"),
        ("naïve Größe привет हिन्दी", "naïve Größe привет हिन्दी"),
    ],
)
def test_runs_without_blanks_become_pairs_and_nothing_else_changes(text: str, pairs: str) -> None:
    assert paired(text).split() == pairs.split()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("résumé Müller Łódź Straße", "resume muller lodz strasse"),
        ("Αθήνα ёлка", "αθηνα елка"),
        ("ᴬ№ ＡＢＣ１２ ﾎﾟﾝﾌﾟ ﬁre wi\u200bfi", "ano abc12 ポンプ fire wifi"),
        ("السَّلامُ שָׁלוֹם İstanbul", "السلام שלום istanbul"),
        ("ガラス が हिंदी ที่น้ำ", "ガラス が हिंदी ที่น้ำ"),  # signs of these scripts make other letters
    ],
)
def test_words_are_compared_without_accents_points_and_width(text: str, query: str) -> None:
    assert words(text) == words(query)


def test_folded_forms_stand_beside_exact_ones() -> None:
    assert with_folded("schön, Café, tea") == "schön, Café, tea schon cafe"
    assert with_folded("plain “text”") == "plain “text”"


def test_beginnings_stand_beside_the_words_of_other_languages() -> None:
    text = "Größe der Fähren 2024 utf8mb4"
    assert with_beginnings(text, of_query=False) == f"{text} grosse fahren 7gross 7fahre"
    assert with_beginnings("ключами 東京タワー", of_query=False) == "ключами  東京 京タ タワ ワー  7ключа"
    english = "The size of the café’s ferries"
    assert with_beginnings(english, of_query=False) == with_beginnings(english, of_query=True) == with_folded(english)


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("An E-Mail to the co-operative", "email cooperative"),
        ("the état\u2011major", "etatmajor etat"),
        ("--no-cache, UTF-8 and x86-64 on 2024-01-05 - or 9-5, key_a-b, a- -b", ""),
        ("an email", ""),
    ],
)
def test_a_hyphenated_word_is_also_written_joined(text: str, joined: str) -> None:
    for of_query in (False, True):
        assert with_beginnings(f"the of and {text}", of_query=of_query) == f"the of and {text} {joined}".rstrip()


def test_a_korean_word_begins_with_its_first_pair() -> None:
    assert with_beginnings("경로를 API의 값 매개변수", of_query=True).split("  ")[-1] == "7경로 7매개"
    english = "the 경로 of a path is in the settings of the server"
    assert with_beginnings(english, of_query=False) == with_folded(english)


def test_a_query_has_beginnings_without_accents_too() -> None:
    assert with_beginnings("Zeiten der Schiffe", of_query=True) == "Zeiten der Schiffe 7zeite 7schif"
    assert with_beginnings("Zeiten der Schiffe", of_query=False) == "Zeiten der Schiffe"


def test_a_folded_word_knows_its_exact_form() -> None:
    text = "Die Fähre fährt in I\u0307stanbul, cafe\u0301 東京"
    assert exact_forms(text) == {"fahre": "fähre", "fahrt": "fährt", "istanbul": "i\u0307stanbul", "cafe": "café"}
    assert exact_forms("plain “text”") == {}


@given(st.text(max_size=80))
def test_folding_again_changes_nothing(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_untouched(text: str) -> None:
    assert paired(text) == text
