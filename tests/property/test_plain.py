"""Plain text of Markdown: every word stays, in order, and no mark does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.query_api.documents.markdown_stripper import plain
from tests.selection import CI_ONLY

_EXAMPLES = settings(max_examples=200, deadline=None)
_WORDS = st.text("abcxyzäéß字", min_size=1, max_size=8)
_MARKS = ("{}", "**{}**", "*{}*", "_{}_", "`{}`", "{}\\*", "[{}](http://a.b/c)", '[{}](<d e> "t")', "![{}](f.png)")


@st.composite
def _lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a line of Markdown, and its words."""
    words = draw(st.lists(_WORDS, min_size=1, max_size=6))
    marks = [draw(st.sampled_from(_MARKS)) for _ in words]
    said = [f"{word}*" if mark == "{}\\*" else word for word, mark in zip(words, marks, strict=True)]
    return " ".join(mark.format(word) for word, mark in zip(words, marks, strict=True)), said


@st.composite
def _blocks(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a block of Markdown, and its words."""
    found = draw(st.lists(_lines(), min_size=1, max_size=4))
    lines, words = [line for line, _ in found], [word for _, said in found for word in said]
    bare = " ".join(words)
    match draw(st.sampled_from(["heading", "underlined", "text", "list", "numbers", "quote", "table", "code", "rule"])):
        case "heading":
            return f"{'#' * draw(st.integers(1, 6))} {' '.join(lines)} ##", words
        case "underlined":
            return "\n".join([*lines, draw(st.sampled_from(["===", "---"]))]), words
        case "text":
            return "\n".join(lines), words
        case "list":
            return "\n".join(f"- {line}" for line in lines), words
        case "numbers":
            return "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1)), [
                word for n, (_, said) in enumerate(found, 1) for word in (f"{n}.", *said)
            ]
        case "quote":
            return "\n".join(f"> {line}" for line in lines), words
        case "table":
            head, *rows = (f"| {line} | {line} |" for line in lines)
            return "\n".join([head, "|---|:-:|", *rows]), [word for _, said in found for word in (*said, *said)]
        case "code":
            return f"```py\n{bare}\n```", words
        case _:
            return f"{' '.join(lines)}\n\n***", words


@pytest.mark.feature(86, 217)
@_EXAMPLES
@given(st.lists(_blocks(), max_size=8))
@CI_ONLY
def test_every_word_stays_in_order_and_no_mark_does(blocks: list[tuple[str, list[str]]]) -> None:
    markdown = "\n\n".join(block for block, _ in blocks)

    assert plain(markdown).split() == [word for _, words in blocks for word in words]
