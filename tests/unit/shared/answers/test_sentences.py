import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers.sentences import (
    codes,
    content_words,
    is_german,
    names,
    numbered,
    numbers,
    options,
    plain,
    split,
    versions,
    words,
)


def test_sentences_end_where_a_reader_sees_it() -> None:
    assert list(split("Dr. Smith paid 3.14, e.g. in cash. He left.")) == [
        "Dr. Smith paid 3.14, e.g. in cash.",
        "He left.",
    ]
    assert list(split('He said "Stop." Then he left.')) == ['He said "Stop."', "Then he left."]
    assert list(split("返品できます。「はい。」送料は無料！")) == ["返品できます。", "「はい。」", "送料は無料！"]


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("**bold** and *slanted*, `code_name`, a_b_c.", "bold and slanted, `code_name`, a_b_c."),
        ("See [here](http://x/y) and ![a map](m.png).", "See here and a map."),
        ('[**Redis**](https://redis.io){.external-link target="_blank"} and `#!python f()`', "Redis and `f()`"),
        ("As [7] says.", "As (7) says."),
    ],
)
def test_markdown_is_read_as_people_see_it(markdown: str, expected: str) -> None:
    assert plain(markdown) == expected


@pytest.mark.parametrize(
    "forms",
    [
        "return returns returned returning",
        "policy policies",
        "box boxes",
        "class classes",
        "store stored storing stores",
        "run running runs",
        "day days day's",
        "CAFÉ café Cafe",
        "ﬁle file FILES",
    ],
)
def test_forms_of_a_word_are_compared_as_one(forms: str) -> None:
    assert len(set(words(forms))) == 1


def test_scripts_without_spaces_are_compared_by_pairs() -> None:
    assert words("返品は30日") == ["返品", "品は", "30", "日"]
    assert set(words("한국어로")) & set(words("한국어는"))


def test_content_words_leave_out_what_says_little() -> None:
    assert content_words("What does it cost to have the goods returned?") == ["cost", "good", "return"]


def test_names_are_capitals_within_the_question() -> None:
    assert names("What is the capital of France?") == ({"franc"}, set())
    assert names("") == names("Goethe") == (set(), set())


def test_a_capital_at_the_start_of_a_sentence_tells_no_name() -> None:
    assert names("La clé est perdue. Combien coûte le Tern ?") == names("jardin. Et le Tern ?") == ({"tern"}, set())
    assert "brown" in names("Is Mr. Brown there?")[0]


def test_an_apostrophe_parts_words_and_drops_what_says_nothing() -> None:
    assert words("l’association dell'acqua") == ["l", "association", "dell", "acqua"]
    assert content_words("can't isn't you'll what's the pilot’s age") == ["pilot", "age"]


def test_a_name_behind_another_and_a_comma_explains_it() -> None:
    assert names("What happened in Wausau, Wisconsin?") == ({"wausau"}, {"wisconsin"})


def test_codes_and_numbers_are_told_by_their_signs() -> None:
    assert codes("Does MQTT or RabbitMQ know N1458U?") == {"mqt", "rabbitmq", "n1458u"}  # as `words` gives them
    assert numbers("What did 2 engines cost in 2007 for N1458U?") == {"2007", "n1458u"}


def test_a_german_question_is_told_by_its_small_words() -> None:
    assert is_german("Auf welchem Port läuft die Dokumentation?")
    assert not is_german("Which port does the documentation use?")


@given(st.text(max_size=400))
def test_any_text_gives_sentences_on_one_line(text: str) -> None:
    assert all("\n" not in sentence for sentence in split(plain(text)))


def test_a_number_behind_a_word_says_which_one_is_meant() -> None:
    assert numbered("Quay 5, svc-33 and the 7 of 9; Seite 12") == {("quay", "5"), ("svc", "33"), ("seit", "12")}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Does it run with Python 3.10?", {"3.10"}),
        ("What came in release 0.6.0 and v1.2.3?", {"0.6", "1.2.3"}),
        ("Can 2.5 tons be lifted?", set()),
        ("Does it cost 9.90 or 9.95?", set()),
        ("Was VAT 7.7% in May?", set()),
        ("Is a height of 3.50 m enough?", set()),
        ("Who wrote on 3.5.2024?", set()),
    ],
)
def test_versions_are_asked_for_by_a_name(question: str, found: set[str]) -> None:
    assert versions(question, asked=True) == found


def test_a_text_has_its_versions_and_those_above() -> None:
    assert versions("Since 0.6.3 and 2.0.0, not 5.") == {"0.6.3", "0.6", "2"}


def test_options_are_known_by_how_they_are_written() -> None:
    assert options("Is --keep-last or $PACK_SIZE a well-known option--or not, or _so_?") == {"keep-last", "pack_size"}
