import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store import EVERYTHING, Filter, Ids
from shared.store.input_validation import MAX_DEPTH, check_name, check_narrow, check_payload, is_id, json_path, value_at


def nested(levels: int) -> dict[str, Any]:
    """Return an object of that many levels."""
    outermost: dict[str, Any] = {}
    for _ in range(levels - 1):
        outermost = {"k": outermost}
    return outermost


scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(scalars | texts, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4))


@given(payload=st.dictionaries(texts, values, max_size=4))
def test_what_json_keeps_passes(payload: dict[str, Any]) -> None:
    check_payload(payload, "point")

    assert json.loads(json.dumps(payload)) == payload


def test_depth_has_a_limit_that_is_named() -> None:
    check_payload(nested(MAX_DEPTH), "point")

    with pytest.raises(ValueError, match=rf"point: k\.k\.k.* nested deeper than {MAX_DEPTH} levels"):
        check_payload(nested(MAX_DEPTH + 1), "point")
    with pytest.raises(ValueError, match="nested deeper"):
        check_payload(nested(100_000), "point")


def test_lists_count_as_levels() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]

    with pytest.raises(ValueError, match="nested deeper"):
        check_payload({"a": value}, "point")


@given(values, st.sampled_from([b"x", {1}, float("nan"), float("-inf"), 2**63, "\udfff", object()]))
def test_the_path_of_a_flaw_is_named(good: Any, bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^point 7: a\.1\.b "):
        check_payload({"good": good, "a": [good, {"b": bad}]}, "point 7")


@pytest.mark.parametrize("name", ["a", "chunks.0_1-x", "9" * 100, "...", ".a"])
def test_a_name_is_returned(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("6f0d3c1e-8a57-5b1e-9a35-5d1d2c6b7f10", True),
        ("6F0D3C1E-8A57-5B1E-9A35-5D1D2C6B7F10", False),
        ("6f0d3c1e8a575b1e9a355d1d2c6b7f10", False),
        ("6f0d3c1e-8a57-5b1e-9a35-5d1d2c6b7f10\n", False),
        ("", False),
        ("7", False),
    ],
)
def test_an_id_is_a_uuid_as_we_write_it(text: str, is_one: bool) -> None:
    assert is_id(text) is is_one


@pytest.mark.parametrize(
    ("field", "path"),
    [("a", "a"), ("a.b-c_9", "a.b-c_9"), ("a.mit leer.x", 'a."mit leer".x'), ("größe", '"größe"'), ("a[]", '"a[]"')],
)
def test_keys_are_quoted_where_qdrant_wants_it(field: str, path: str) -> None:
    assert json_path(field) == path


def test_a_value_is_found_or_not() -> None:
    payload = {"a": {"b": [1], "c": None}}

    assert value_at(payload, ["a", "b"]) == [1]
    assert value_at(payload, ["a", "b", "c"]) is None
    assert value_at(payload, ["x", "y"]) is None


def test_only_a_filter_that_says_something_may_delete() -> None:
    narrow = Filter(must=(Ids(()),))

    assert check_narrow(narrow) == narrow
    with pytest.raises(ValueError, match="every point"):
        check_narrow(EVERYTHING)
