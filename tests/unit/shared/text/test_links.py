import pytest

from shared.contracts import Chunk, embedded_of
from shared.text.links import without_targets


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ("Fill [the form](https://a.test/f) today.", "Fill the form today."),
        ('![A pier](img/pier.png "old") and [mail](mailto:a@b.test)', "A pier and mail"),
        ("[Tide](https://a.test/Tide_(sea)?x=1)[2](#note)", "Tide2"),
        ("the form (https://a.test/f), again", "the form, again"),
        ("See https://a.test and (twice) [x] (y)", "See https://a.test and (twice) [x] (y)"),
        ("handlers[name](argument)", "handlers[name](argument)"),
    ],
)
def test_addresses_are_left_out_of_what_is_embedded(text: str, embedded: str) -> None:
    assert without_targets(text) == embedded
    assert embedded_of(text, "| [a](b.c) |") == f"| a |\n{embedded}"
    assert Chunk(order=0, text=text, hash="", start=0, end=len(text), tokens=1).embedded == embedded


def test_a_text_of_addresses_alone_is_embedded_as_it_is() -> None:
    assert embedded_of("[](https://a.test)") == "[](https://a.test)"
