"""The questions that searches in ten languages are judged by are not copies of what answers them."""

import pytest

from shared.text.words import WORD, words
from tests.bench.relevance.languages import LANGUAGES, paragraphs, questions

UNSPACED = {"zh", "ja", "th"}


def _exact(text: str) -> list[str]:
    return WORD.findall(text.lower())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_question_shares_at_most_half_of_its_words_with_the_paragraph_that_answers_it(language: str) -> None:
    texts = {each.path: each.text for each in paragraphs(LANGUAGES[language])}
    asked = list(questions(LANGUAGES[language]))

    assert len(set(texts.values())) == 200
    assert len({each.path for each in asked}) == 50
    for question in asked:
        split = words if language in UNSPACED else _exact
        distinct = set(split(question.text))
        assert 2 * len(distinct & set(split(texts[question.path]))) <= len(distinct), question.text
