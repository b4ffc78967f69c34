import gc
import threading
from typing import Any

import pytest
from litestar.testing import RequestFactory

from services.query_api.http.problems import Problem
from services.query_api.http.request import (
    ApiRequest,
    beside,
    form_object,
    metadata_of,
    parse_json,
    tags_of,
    wait_of,
)
from shared.inputs.metadata import MOST_DEPTH


async def test_a_body_is_gone_with_its_request_though_the_connection_has_the_scope() -> None:
    scope = RequestFactory().get("/").scope
    scope["state"].clear()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"lantern" * 9, "more_body": False}

    request: ApiRequest = ApiRequest(scope, receive)
    assert await request.body() == await request.body() == b"lantern" * 9

    assert b"lantern" * 9 not in gc.get_referents(*gc.get_referents(scope["state"]), scope["state"], scope)


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        (b"query=a+b&topK=5", {"query": "a b", "topK": "5"}),
        (b"tags=a&tags=b", {"tags": ["a", "b"]}),
        (b"tags[]=a", {"tags": ["a"]}),
        (b"filters=%7B%22source%22%3A%22s%22%7D", {"filters": {"source": "s"}}),
        (b"text=%5Bnot+JSON", {"text": "[not JSON"}),
        (b"title=", {"title": ""}),
        (b"", {}),
    ],
)
def test_a_form_gives_the_fields_its_json_would(form: bytes, fields: dict[str, object]) -> None:
    assert form_object(form, frozenset({"text"})) == fields


@pytest.mark.parametrize("form", [b"\xff=1", b"a=%ff", b"&".join(b"a=1" for _ in range(2000)), b"filters={"])
def test_a_form_that_cannot_be_read_is_a_400(form: bytes) -> None:
    with pytest.raises(Problem) as refused:
        form_object(form, frozenset({"text"}))

    assert refused.value.status == 400


@pytest.mark.parametrize(
    "data", [b"{", b"", b"NaN", b'"\\ud800"', b'"\xed\xa0\x80"', b"\xff", b"1e999", b"[" * 100_000, b'{"a":' * 100_000]
)
def test_json_that_is_none_is_a_400(data: bytes) -> None:
    with pytest.raises(Problem, match="the body") as refused:
        parse_json(data)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        (None, ()),
        ("a, b ,a,,", ("a", "b")),
        ('["a","b"]', ("a", "b")),
        (["a", " ", "b "], ("a", "b")),
        ("", ()),
    ],
)
def test_tags_come_as_a_list_or_in_one_string(given: Any, tags: tuple[str, ...]) -> None:
    assert tags_of(given) == tags


@pytest.mark.parametrize("given", ["[1]", ["x"] * 1 + [f"t{n}" for n in range(64)], ["x" * 201], "[broken"])
def test_bad_tags_are_refused_by_name(given: Any) -> None:
    with pytest.raises(Problem, match="tags"):
        tags_of(given)


@pytest.mark.parametrize(
    ("given", "metadata"), [(None, {}), ("", {}), ('{"a": 1}', {"a": 1}), ({"b": [1.5]}, {"b": [1.5]})]
)
def test_metadata_comes_as_an_object_or_as_its_json(given: Any, metadata: dict[str, Any]) -> None:
    assert metadata_of(given) == metadata


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[1]", "must be an object"),
        ({"n": {"big": 2**70}}, r"metadata\.n\.big: is an integer beyond 64 bits"),
        ({"list": [0, 2**70]}, r"metadata\.list\[1\]"),
        (_nested(MOST_DEPTH + 1), "nested deeper"),
        (_nested(5000), "nested deeper"),
        ({"a": "x" * 50_000}, "larger than 40000 bytes"),
    ],
)
def test_metadata_no_store_could_keep_is_refused(given: Any, said: str) -> None:
    with pytest.raises(Problem, match=said):
        metadata_of(given)


@pytest.mark.parametrize(
    ("prefer", "seconds", "applied"),
    [
        (None, 30.0, None),
        ("wait=5", 5.0, "wait=5"),
        ("WAIT = 5", 5.0, "wait=5"),
        ('wait="7"; x=y', 7.0, "wait=7"),
        ("wait=0", 0.0, "wait=0"),
        ("wait=99999999999", 300.0, "wait=300"),
        ("respond-async", 0.0, "respond-async"),
        ("return=minimal, wait=4", 4.0, "wait=4"),
        ("wait=-1", 30.0, None),
        ("wait=soon", 30.0, None),
        ("wait=²", 30.0, None),
    ],
)
def test_prefer_says_how_long_to_wait(prefer: str | None, seconds: float, applied: str | None) -> None:
    headers = {"Prefer": prefer.encode().decode("latin-1")} if prefer else {}

    wait, said = wait_of(RequestFactory().post("/", headers=headers))

    assert wait == seconds
    assert said.get("Preference-Applied") == applied


@pytest.mark.parametrize("large", [False, True])
async def test_only_large_work_leaves_the_thread_of_the_loop(large: bool) -> None:
    assert (await beside(large, threading.current_thread) is not threading.current_thread()) == large


async def test_an_error_of_the_work_reaches_its_caller() -> None:
    with pytest.raises(ValueError, match="wrong"):
        await beside(True, int, "wrong")
