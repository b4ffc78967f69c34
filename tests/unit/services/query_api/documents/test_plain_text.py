import pytest

from services.query_api.documents.plain_text import plain


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
