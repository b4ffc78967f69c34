import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers.sentences import content_words, names, sentences, words


def texts(markdown: str) -> list[str]:
    return [sentence.text for sentence in sentences(markdown)]


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("One. Two! Three… Four", ["One.", "Two!", "Three…", "Four"]),
        ("Dr. Smith paid 3.14, e.g. in cash. He left.", ["Dr. Smith paid 3.14, e.g. in cash.", "He left."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("返品できます。「はい。」送料は無料！", ["返品できます。", "「はい。」", "送料は無料！"]),
        ("A line\nthat goes on.\n\nAnother.", ["A line that goes on.", "Another."]),
        ("# Title\n\nText.", ["Text."]),
        ("Title\n=====\nText.", ["Text."]),
        ("- one\n- two\n  goes on\n3. three\n- [ ] four", ["one", "two goes on", "three", "four"]),
        ("> quoted\n> text.", ["quoted text."]),
        ("**bold** and *slanted*, `code_name`, a_b_c.", ["bold and slanted, `code_name`, a_b_c."]),
        ("See [here](http://x/y) and ![a map](m.png).", ["See here and a map."]),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | |", ["a: 1; b: 2", "a: 3"]),
        ("| 1 | 2 |\n| 3 | 4 |", ["1; 2", "3; 4"]),
        ("```\nmake run\n```\nDone.", ["make run", "Done."]),
        ("~~~\nprint(a[9]) # *all*\n~~~", ["print(a(9)) # *all*"]),
        ("---\n***\n...\n", []),
    ],
)
def test_sentences_are_quotable_without_markdown(markdown: str, expected: list[str]) -> None:
    assert texts(markdown) == expected


def test_headings_and_questions_say_what_follows_is_about() -> None:
    found = sentences("Alone.\n# Refunds\nHow long? Five days.\n\n## Cost\nFree.")

    assert [(sentence.text, sentence.about) for sentence in found] == [
        ("Alone.", ""),
        ("Five days.", "Refunds How long?"),
        ("Free.", "Cost"),
    ]


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
    assert names("What is the capital of France?") == {"franc"}
    assert names("") == names("Goethe") == set()


@given(st.text(max_size=400))
def test_any_text_gives_sentences_on_one_line(text: str) -> None:
    for sentence in texts(text):
        assert sentence == sentence.strip()
        assert "\n" not in sentence
