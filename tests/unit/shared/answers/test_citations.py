from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.answers.citations import KnownCitations, cited, unmarked


def filtered(pieces: list[str], known: set[int]) -> str:
    citations = KnownCitations(known)
    return "".join([*(citations.feed(piece) for piece in pieces), citations.rest()])


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("No citation.", ()),
        ("One [1].", (1,)),
        ("In order of mention [3], [1][3].", (3, 1)),
        ("Together [2, 1] or [Source 3].", (2, 1, 3)),
        ("Unknown [4], [0], [99999] and [x].", ()),
        ("[1][4]", (1,)),
    ],
)
def test_numbers_are_read_and_unknown_ones_dropped(answer: str, numbers: tuple[int, ...]) -> None:
    assert cited(answer, {1, 2, 3}) == numbers


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("Known [1] and [2].", "Known [1] and [2]."),
        ("Unknown [9].", "Unknown."),
        ("Both [1, 9] here.", "Both [1] here."),
        ("Run [1][9] on.", "Run [1] on."),
        ("[9] first", " first"),
        ("code a[9] and f(x)[7] stays", "code a[9] and f(x)[7] stays"),
        ("an open [ and [9", "an open [ and [9"),
        ("[link](http://x) [^9]", "[link](http://x) [^9]"),
        ("white  \n space ", "white  \n space "),
    ],
)
def test_unknown_citations_are_dropped_from_a_stream(answer: str, shown: str) -> None:
    assert filtered([answer], {1, 2}) == shown
    assert filtered(list(answer), {1, 2}) == shown


TEXT_WITH_MARKS = st.lists(
    st.sampled_from(["[", "]", "1", "9", ",", " ", "a", "\n", "Source ", "[9]", "[1]", " [1, 9]", "x" * 70]),
    max_size=30,
).map("".join)


@given(text=TEXT_WITH_MARKS, data=st.data())
def test_it_makes_no_difference_where_a_stream_is_cut(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))

    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]

    assert filtered(pieces, {1}) == filtered([text], {1})


def test_nothing_is_held_back_longer_than_a_citation() -> None:
    citations = KnownCitations({1})

    assert citations.feed("Plain text goes on ") == "Plain text goes on"
    assert citations.feed("and on [" + "x" * 100) == " and on [" + "x" * 100


def test_a_documents_own_marks_are_no_citations() -> None:
    assert unmarked("as shown [12], [Source 3] but a [link]") == "as shown (12), (Source 3) but a [link]"
    assert cited(unmarked("[1] [1, 2] [source 1]"), {1, 2}) == ()
