"""Words by which a text is found again, and the search for them."""

from pathlib import Path

import pytest

from services.query_api.forget import Seen, canary, seen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Open from ten.\nClosed on Mondays.", "Closed on Mondays."),
        ('He said "the heron waits" and left.', "the heron waits"),  # JSON would escape the quotes
        ("short\nlines\nonly", None),
        ("", None),
    ],
)
def test_a_canary_is_the_longest_run_that_every_file_holds_as_it_is(text: str, words: str | None) -> None:
    assert canary(text) == words


def test_a_canary_of_a_long_text_is_cut_between_words() -> None:
    text = "wonderful " * 30

    words = canary(text)

    assert words is not None
    assert 12 <= len(words) <= 40
    assert set(words.split()) == {"wonderful"}


async def test_words_are_found_in_every_file_wherever_they_stand(tmp_path: Path) -> None:
    block = 1 << 20
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "across").write_bytes(b"." * (block - 5) + b"the heron waits" + b"." * block)
    (tmp_path / "both").write_bytes(b"the heron waits, closed on Mondays")
    (tmp_path / "none").write_bytes(b"the heron is waiting")
    (tmp_path / "link").symlink_to("both")

    count, found = await seen(tmp_path, ["the heron waits", "closed on Mondays"])

    assert count == 3
    assert found == [Seen("both", 2), Seen(str(Path("deep", "across")), 1)]
