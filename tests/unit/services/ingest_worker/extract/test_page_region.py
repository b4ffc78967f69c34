"""What of a page stays beside the words that its main text was taken from."""

import pytest
from lxml import html

from services.ingest_worker.extract.page_region import keep
from services.ingest_worker.extract.safe_xml import words

_FIRST = "The ferry leaves the north quay at six in the morning."
_LAST = "In winter it waits for the ice to drift away."
_TABLE = "<table><tr><th>Day</th></tr><tr><td>Monday</td></tr></table>"


@pytest.mark.parametrize(
    ("page", "stays"),
    [
        (f"<div>Menu of the site</div><p>{_FIRST}</p><p>{_LAST}</p><div>Imprint</div>", f"{_FIRST} {_LAST}"),
        (f"<p>{_FIRST}</p><div><pre>run it</pre></div>{_TABLE}<p>{_LAST}</p>", f"{_FIRST} run it Day Monday {_LAST}"),
        (f"<p>{_FIRST}</p><div>Share this</div><p>{_LAST}</p>", f"{_FIRST} {_LAST}"),
        (f"<p>{_FIRST}</p><ul><li><a href='/a'>News</a></li></ul><p>{_LAST}</p>", f"{_FIRST} {_LAST}"),
        (
            f"<p>{_FIRST}</p><p>See:</p><ul><li><a href='/a'>News</a></li></ul><p>{_LAST}</p>",
            f"{_FIRST} See: News {_LAST}",
        ),
        (f"<p>{_FIRST}</p><figure><img></figure><p>Photo: Ann</p><p>{_LAST}</p>", f"{_FIRST} {_LAST}"),
        (f"<p>{_FIRST}</p><figure>{_TABLE}</figure><p>Days</p><p>{_LAST}</p>", f"{_FIRST} Day Monday Days {_LAST}"),
        (f"<article><p>{_FIRST}</p><p>{_LAST}</p>{_TABLE}<p>Share</p></article>", f"{_FIRST} {_LAST} Day Monday"),
        (f"<div>{_FIRST}<p>{_LAST}</p>or not</div>", f"{_FIRST} {_LAST} or not"),
        (f"<ul><li>{_FIRST}</li><li>Yes</li><li>{_LAST}</li></ul>", f"{_FIRST} Yes {_LAST}"),
        (f"<p>{_FIRST} <b>{_LAST}</b></p><p hidden>Gone</p>", f"{_FIRST} {_LAST}"),
    ],
)
def test_blocks_of_the_text_stay_and_texts_between_them(page: str, stays: str) -> None:
    tree = html.document_fromstring(f"<html><body>{page}</body></html>")

    assert keep(tree, f"{_FIRST}\n{_LAST}", frozenset({"script"}))

    assert " ".join(text.strip() for text in map(str, tree.itertext()) if text.strip()) == stays


def test_a_menu_that_says_what_the_text_does_goes() -> None:
    head = "How the ferry runs in winter"
    tree = html.document_fromstring(f"<div><ul><li>{head}</li></ul></div><div><h1>{head}</h1><p>{_FIRST}</p></div>")

    assert keep(tree, f"{head}\n{_FIRST}", frozenset())

    assert [each.tag for each in tree.iter("li", "h1", "p")] == ["h1", "p"]


@pytest.mark.parametrize(
    ("page", "text"), [("<div>void</div><div>total()</div>", "voidtotal()"), ("<p>港の話</p>", "港の話")]
)
def test_words_are_found_where_nothing_parts_them(page: str, text: str) -> None:
    tree = html.document_fromstring(f"<div><div>Nothing of it</div>{page}</div>")

    assert keep(tree, text, frozenset())

    assert words(tree) == words(html.document_fromstring(page))


def test_a_page_of_very_many_words_stays_as_it_is() -> None:
    tree = html.document_fromstring(f"<div><p>Menu</p><p>{'a b c d ' * 51_000}</p></div>")

    assert not keep(tree, "a b c d", frozenset())
    assert words(tree).startswith("Menu")
