"""The judgement of made-up requests notices what is wrong with a reply."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.fuzz.run import fuzz
from tests.selection import CI_ONLY

_THING = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_AGAIN = {"Retry-After": {"schema": {"type": "integer"}, "required": True}}


class OneReply:
    """A target that always replies the same."""

    def __init__(
        self, status: int, headers: dict[str, str], body: Any, *, paths: tuple[str, ...] = ("/thing",)
    ) -> None:
        json = {"application/json": {"schema": _THING}}
        responses = {
            "200": {"description": "It is there.", "content": json},
            "503": {"description": "It is away.", "headers": _AGAIN, "content": json},
        }
        parameters = [{"name": "q", "in": "query", "schema": {"type": "integer"}}]
        self.spec: dict[str, Any] = {
            "openapi": "3.1.0",
            "info": {"title": "t", "version": "1"},
            "paths": {path: {"get": {"parameters": parameters, "responses": responses}} for path in paths},
        }
        self._reply = status, headers, body

    def send_or_fail(self, request: httpx.Request) -> httpx.Response | Exception:
        status, headers, body = self._reply
        reply = httpx.Response(status, headers=headers, json=body, request=request)
        reply.elapsed = timedelta()
        return reply

    def held(self) -> tuple[float, str]:
        return 0.0, ""


@CI_ONLY
@pytest.mark.parametrize(
    ("status", "headers", "body", "wrong"),
    [
        pytest.param(200, {}, {"n": 1}, "", id="as declared"),
        pytest.param(500, {}, {"n": 1}, "Undocumented status code", id="a status that is not declared"),
        pytest.param(200, {}, {"n": "1"}, "Response violates schema", id="a body that is not declared"),
        pytest.param(200, {"Content-Type": "text/html"}, {"n": 1}, "Undocumented Content-Type", id="another type"),
        pytest.param(503, {"Retry-After": "2"}, {"n": 1, "detail": "the store is away"}, "", id="an honest 503"),
        pytest.param(
            503, {}, {"n": 1, "detail": "the store is away"}, "Missing required response headers", id="503 for how long"
        ),
        pytest.param(503, {"Retry-After": "2"}, {"n": 1}, "without the part that is away", id="503 of what"),
    ],
)
def test_what_is_not_as_declared_is_noticed(status: int, headers: dict[str, str], body: Any, wrong: str) -> None:
    fuzzed = fuzz(OneReply(status, headers, body), cases=4, seconds=30, seed=1, at_limits=0)

    assert fuzzed.cases >= 4
    assert bool(fuzzed.failed) == bool(wrong), fuzzed.report()
    assert wrong in fuzzed.report()


@CI_ONLY
def test_a_request_without_a_reply_is_a_fault_and_the_next_one_is_sent() -> None:
    class Silent(OneReply):
        def send_or_fail(self, request: httpx.Request) -> httpx.Response | Exception:
            return httpx.ReadTimeout("timed out", request=request)

    fuzzed = fuzz(Silent(200, {}, {}), cases=4, seconds=30, seed=1, at_limits=0)

    assert fuzzed.cases == fuzzed.failed >= 4
    assert "GET /thing: no reply" in fuzzed.report()


@CI_ONLY
def test_each_operation_has_its_turn_though_the_time_is_up() -> None:
    sent: list[str] = []

    class Noted(OneReply):
        def send_or_fail(self, request: httpx.Request) -> httpx.Response | Exception:
            sent.append(request.url.path)
            return super().send_or_fail(request)

    target = Noted(200, {}, {"n": 1}, paths=("/thing", "/other"))
    fuzzed = fuzz(target, cases=1000, seconds=0, seed=1, at_limits=1)

    assert set(sent) == {"/thing", "/other"}
    assert fuzzed.cases == len(sent) < 1000


@CI_ONLY
@pytest.mark.parametrize(("last", "lost"), [("unchanged", False), ("failed", True), (None, True)])
def test_a_batch_that_one_bad_item_costs_is_noticed(last: str | None, *, lost: bool) -> None:
    items = [] if last is None else [{"status": "accepted"}, {"status": "failed"}, {"status": last}]
    target = OneReply(200, {}, {"n": 1, "items": items})
    (operation,) = target.spec["paths"].pop("/thing").values()
    body = {"content": {"application/json": {"schema": {"type": "array"}}}, "required": True}
    target.spec["paths"]["/rag/ingest/batch"] = {"post": {**operation, "requestBody": body}}

    fuzzed = fuzz(target, cases=4, seconds=30, seed=1, at_limits=0)

    assert fuzzed.batches
    assert fuzzed.lost == (fuzzed.batches if lost else 0), fuzzed.report()
    assert ("a bad item cost a good one" in fuzzed.report()) == lost
