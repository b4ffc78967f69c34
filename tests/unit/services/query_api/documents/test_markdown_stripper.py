from typing import Any, cast

import pytest

from services.query_api.documents.document_routes import DocumentViews
from services.query_api.documents.markdown_stripper import plain
from tests.loop_holds import least_hold
from tests.selection import CI_ONLY


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Title\n\nA *b* **c** `d`.", "Title\n\nA b c d.\n"),
        ("- one\n- two [link](http://x)\n", "one\n\ntwo link\n"),
        ("| a | b |\n|---|---|\n| 1 | **2** |\n", "a\tb\n1\t2\n"),
        ("```py\nx = 1\n```\n", "x = 1\n"),
        ("line one\nline two  \nline three", "line one\nline two\nline three\n"),
        ("![alt *text*](x.png)", "alt *text*\n"),
        ("> quoted\n\n1. first\n2.\n\nafter", "quoted\n\n1. first\n\nafter\n"),
        ("3) third\n   - inner\n", "3) third\n\ninner\n"),
        ("a <b>raw</b> & \\* star", "a <b>raw</b> & * star\n"),
    ],
)
def test_the_words_stay_and_the_marks_go(markdown: str, text: str) -> None:
    assert plain(markdown) == text


@CI_ONLY
async def test_a_long_text_leaves_the_loop_free() -> None:
    views: Any = DocumentViews(*[cast("Any", None)] * 4)
    markdown = "# Lantern\n\nA *lantern* on the [pier](b) is `lit` at **six**.\n\n" * 8_000

    text, seconds, what = await least_hold(lambda: views.plain(markdown), 0.25)

    assert text.startswith("Lantern\n\nA lantern on the pier is lit at six.\n")
    assert seconds <= 0.25, what
