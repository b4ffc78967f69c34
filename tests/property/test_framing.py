"""Bodies are cut into the same items, however they arrive."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.query_api.ingest.batch_framing import Elements, Framing, Lines

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('"\\[]{},:\n aé', max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\]}', max_size=3), inner, max_size=3),
    max_leaves=8,
)
blanks = st.text(" \t\r\n", max_size=3)


def cut(framing: Framing, body: bytes, sizes: list[int]) -> list[bytes | None]:
    """Feed the body in pieces of these sizes, over and over."""
    items: list[bytes | None] = []
    at = turn = 0
    while at < len(body):
        size = sizes[turn % len(sizes)]
        items += framing.feed(body[at : at + size])
        at, turn = at + size, turn + 1
    return [*items, *framing.end()]


def parsed(items: list[bytes | None]) -> list[Any]:
    return [json.loads(item) for item in items if item is not None]


@given(items=st.lists(values, max_size=6), around=st.lists(blanks, min_size=7), ascii_=st.booleans(), data=st.data())
def test_an_array_gives_its_elements(items: list[Any], around: list[str], ascii_: bool, data: st.DataObject) -> None:
    between = ",".join(
        f"{around[n]}{json.dumps(item, ensure_ascii=ascii_)}{around[-1]}" for n, item in enumerate(items)
    )
    body = f"{around[0]}[{between}{around[1]}]{around[2]}".encode()
    sizes = data.draw(st.lists(st.integers(1, len(body)), min_size=1, max_size=5))

    assert parsed(cut(Elements(10_000), body, sizes)) == items


@given(items=st.lists(values, max_size=6), around=st.lists(blanks, min_size=7), data=st.data())
def test_lines_give_their_values(items: list[Any], around: list[str], data: st.DataObject) -> None:
    body = "".join(f"{json.dumps(item)}{blank}\n" for item, blank in zip(items, around, strict=False)).encode()
    body = body.removesuffix(b"\n")
    sizes = data.draw(st.lists(st.integers(1, len(body) or 1), min_size=1, max_size=5))

    assert parsed(cut(Lines(10_000), body, sizes)) == items


@given(body=st.binary(max_size=60) | st.text('["\\],{} a', max_size=60).map(str.encode), data=st.data())
def test_nonsense_is_the_same_nonsense_however_it_arrives(body: bytes, data: st.DataObject) -> None:
    def outcome(framing: Framing, sizes: list[int]) -> list[bytes | None] | str:
        try:
            return cut(framing, body, sizes)
        except ValueError as error:
            return str(error)

    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))

    for made in (Elements, Lines):
        assert outcome(made(20), sizes) == outcome(made(20), [100])


@pytest.mark.parametrize(
    ("made", "body", "items"),
    [
        (Elements, b"[]", []),
        (Elements, b"[1,]", [b"1", b""]),
        (Elements, b"[,]", [b"", b""]),
        (Elements, b"[nope, {{}}, 2]", [b"nope", b"{{}}", b"2"]),
        (Elements, b'["123456789", 2, "1234567890"]', [None, b"2", None]),
        (Lines, b"12345678901\n2\n", [None, b"2"]),
        (Lines, b"\n \n", []),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_items_that_are_none_cost_only_themselves(
    made: Callable[[int], Framing], body: bytes, items: list[bytes | None], size: int
) -> None:
    assert cut(made(10), body, [size]) == items


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is missing"),
        (b"[1, 2", "the array is not closed"),
        (b'["]', "the array is not closed"),
        (b"[1] 2", "the body has more data after its array"),
        (b"[1][2]", "the body has more data after its array"),
        (b"[{]}, 2]", "the body has more data after its array"),
        (b"{}", "the body is not a JSON array"),
        (b"x[1]", "the body is not a JSON array"),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_what_is_no_array_says_so(body: bytes, said: str, size: int) -> None:
    with pytest.raises(ValueError, match=said):
        cut(Elements(10), body, [size])


def test_an_item_that_is_too_long_is_not_kept() -> None:
    framing = Elements(1000)
    assert list(framing.feed(b"[")) == []

    for _ in range(100):
        assert list(framing.feed(b"x" * 100)) == []

    assert len(framing._bytes) <= 1000
    assert list(framing.feed(b",1]")) == [None, b"1"]
