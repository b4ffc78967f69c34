from collections.abc import Sequence

import pytest

from services.query_api.clients import embedding


class Words:
    """Counts words, and how many characters it was asked about."""

    max_tokens = 10

    def __init__(self) -> None:
        self.asked = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        self.asked += sum(map(len, texts))
        return [len(text.split()) for text in texts]


@pytest.mark.parametrize("text", ["lamp " * 9, "lamp " * 10, "lamp"])
def test_a_text_that_fits_is_counted_once_and_stays(text: str) -> None:
    counter = Words()

    assert embedding._beginning(text, counter) == text
    assert counter.asked == len(text)


def test_of_a_text_that_is_too_long_the_beginning_is_counted_and_kept() -> None:
    counter = Words()

    assert embedding._beginning("lamp " * 1_000_000, counter).split() == ["lamp"] * 10
    assert counter.asked < 10_000
