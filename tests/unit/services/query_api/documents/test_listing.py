"""The order of a list, page by page, whatever the documents are called."""

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.documents.listing import SORTS, ListCursor, Listing, first
from shared.state.ledger import Entry
from shared.store import Filter
from tests.builders import an_entry

if TYPE_CHECKING:
    from collections.abc import Callable

names = st.text(max_size=6)


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    found = draw(st.lists(st.tuples(names, names, st.integers(0, 3)), max_size=20))
    return [
        msgspec.structs.replace(
            an_entry(f"{number:08}-0000-0000-0000-000000000000", accepted=1),
            path=path,
            title=title or None,
            created_at=created,
        )
        for number, (path, title, created) in enumerate(found)
    ]


@given(
    entries=entries(),
    sort=st.sampled_from([sort for sort in SORTS if "updatedAt" not in sort]),
    limit=st.integers(1, 5),
)
def test_pages_put_together_are_the_whole_list_once_in_order(entries: list[Entry], sort: str, limit: int) -> None:
    listing = Listing(where=Filter(), sort=sort)
    keys_of: dict[str, Callable[[Entry], int | str]] = {
        "createdAt": lambda entry: entry.created_at,
        "path": lambda entry: entry.path,
        "title": lambda entry: (entry.title or entry.path).casefold(),
    }
    key = keys_of[sort.removeprefix("-")]

    pages: list[Entry] = []
    cursor: ListCursor | None = None
    while page := first(entries, listing, limit, cursor):
        pages += page
        cursor = ListCursor(sort, listing.key(page[-1]), (page[-1].document_id,))

    keys = [key(entry) for entry in pages]
    assert sorted(pages, key=lambda entry: entry.document_id) == sorted(entries, key=lambda entry: entry.document_id)
    assert keys == sorted(keys, reverse=sort.startswith("-"))


@pytest.mark.parametrize(
    ("q", "prefix", "shown"),
    [
        ("", "", True),
        ("LENS light", "", True),
        ("guide.md", "", True),
        ("lens telescope", "", False),
        ("", "books/", True),
        ("", "ooks/", False),
        ("lens", "other/", False),
    ],
)
def test_every_word_stands_in_the_title_or_the_path(q: str, prefix: str, shown: bool) -> None:
    entry = msgspec.structs.replace(an_entry("x", accepted=1), title="The Lens of the Light", path="books/guide.md")

    assert Listing(where=Filter(), path_prefix=prefix, words=tuple(q.casefold().split())).fits(entry) is shown
