import datetime as dt
from typing import Annotated, Any, Literal
from uuid import UUID

import httpx
import msgspec
import pytest
from litestar import Litestar, get
from msgspec import Meta

from services.query_api.http.problems import HANDLERS, Problem, body, in_words, media_type, of_contract, of_pipeline
from services.query_api.ops.generation_plan import BuildRequest
from shared.errors import Rejected, Unavailable
from shared.runtime.probes import RETRY_AFTER_S


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/problem+json"),
        ("*/*", "application/problem+json"),
        ("application/json", "application/json"),
        (
            "application/json,text/html,application/xhtml+xml,application/xml,text/*;q=0.9, */*;q=0.7",
            "application/json",
        ),
        ("Application/JSON", "application/json"),
        ("application/json, application/problem+json", "application/problem+json"),
        ("application/problem+json", "application/problem+json"),
    ],
)
def test_a_client_that_knows_only_json_gets_json(accept: str, expected: str) -> None:
    assert media_type(accept) == expected


def test_the_body_speaks_to_old_and_new_clients() -> None:
    told = body(Problem(409, "it has changed", code="STALE", details={"documentId": "7"}), "/rag/x")

    assert told == {
        "type": "urn:sluice:problem:stale",
        "title": "Conflict",
        "status": 409,
        "detail": "it has changed",
        "instance": "/rag/x",
        "success": False,
        "error": "it has changed",
        "message": "it has changed",
        "code": "STALE",
        "details": {"documentId": "7"},
    }


@get(["/retrieval", "/rag/retrieval"])
async def refused() -> None:
    raise Problem(404, "there is no such knowledge")


@pytest.mark.parametrize(("path", "difys"), [("/retrieval", True), ("/rag/retrieval", False)])
async def test_an_error_of_difys_route_also_has_the_fields_of_its_contract(path: str, *, difys: bool) -> None:
    app = Litestar([refused], exception_handlers=HANDLERS, openapi_config=None, logging_config=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:  # type: ignore[arg-type]
        told = (await client.get(path)).json()

    expected = {"error_code": 2001, "error_msg": "there is no such knowledge"} if difys else {}
    assert {name: told[name] for name in told.keys() & {"error_code", "error_msg"}} == expected
    assert told["detail"] == "there is no such knowledge"


def test_an_outage_says_when_to_come_again() -> None:
    problem = of_pipeline(Unavailable("the store is away"))

    assert (problem.status, problem.code) == (503, "UNAVAILABLE")
    assert problem.headers == {"Retry-After": str(RETRY_AFTER_S)}


@pytest.mark.parametrize(("code", "status"), [("record_too_large", 413), ("blob_missing", 422)])
def test_a_rejection_is_the_callers(code: str, status: int) -> None:
    problem = of_pipeline(Rejected("no", code))

    assert (problem.status, problem.code) == (status, code.upper())


class Step(msgspec.Struct):
    way: Literal["in", 1, 2]


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    sizes: dict[str, int] = {}
    steps: list[Step] = []


class Form(msgspec.Struct, kw_only=True):
    title: str | None = None
    tags: list[str] | str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    weight: Annotated[float, Meta(ge=0, le=1)] = 0
    above: Annotated[float, Meta(gt=0)] = 1
    even: bool = True
    code: Annotated[str, Meta(min_length=1, max_length=3)] = "x"
    ids: Annotated[list[int], Meta(max_length=2)] = []
    at: dt.datetime | None = None
    id: UUID | None = None
    order: Literal["up", "down"] = "up"
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"title": 7}, "title: must be text, not 7"),
        ({"title": True}, "title: must be text, not true"),
        ({"tags": 7}, "tags: must be text or a list, not 7"),
        ({"tags": ["a", None]}, "tags[1]: must be text, not null"),
        ({"limit": "many"}, "limit: must be a whole number, not 'many'"),
        ({"limit": 1.5}, "limit: must be a whole number, not 1.5"),
        ({"limit": 0}, "limit: must be at least 1, not 0"),
        ({"limit": 1001}, "limit: must be at most 1000, not 1001"),
        ({"limit": 10**30}, f"limit: must be at most 1000, not {10**30}"),
        ({"weight": 2}, "weight: must be at most 1, not 2"),
        ({"weight": "x"}, "weight: must be a number, not 'x'"),
        ({"above": 0}, "above: must be more than 0, not 0"),
        ({"even": "maybe"}, "even: must be true or false, not 'maybe'"),
        ({"code": ""}, "code: must have at least 1 character, not 0"),
        ({"code": "long"}, "code: must have at most 3 characters, not 4"),
        ({"ids": [1, 2, 3]}, "ids: must have at most 2 items, not 3"),
        ({"at": "today"}, "at: must be a time such as 2026-05-01T10:00:00Z, not 'today'"),
        ({"id": "7"}, "id: must be a UUID, not '7'"),
        ({"order": "left"}, "order: must be 'down' or 'up', not 'left'"),
        ({"order": 7}, "order: must be 'down' or 'up', not 7"),
        ({"order": "l" * 99}, f"order: must be 'down' or 'up', not '{'l' * 99}'"),
        ({"title": 10**99}, f"title: must be text, not 1{'0' * 59}…"),
        ({"inner": {"name": "x", "sizes": {"a": "b"}}}, "inner.sizes[...]: must be a whole number, not text"),
        ({"inner": {"name": "x", "steps": [{"way": "out"}]}}, "inner.steps[0].way: must be 1, 2 or 'in', not 'out'"),
        ({"inner": []}, "inner: must be an object, not a list"),
        ({"inner": {}}, "inner.name: is required"),
        ({"inner": {"name": "x", "age": 1}}, "inner.age: there is no such field"),
        ([], "the body must be an object, not a list"),
        (None, "the body must be an object, not null"),
    ],
)
def test_a_wrong_value_is_refused_in_a_person_s_words(sent: Any, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(sent, Form)

    problem = of_contract(refused.value, sent, Form)

    assert (problem.status, problem.sentence) == (400, sentence)


def test_the_nearest_field_is_suggested_where_unknown_ones_are_refused() -> None:
    sent = {"ChunkSIZE": 800}
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(sent, BuildRequest)

    problem = of_contract(refused.value, sent, BuildRequest)

    assert problem.sentence == "ChunkSIZE: there is no such field; did you mean chunkSize?"


def test_a_message_that_is_not_known_is_kept() -> None:
    assert in_words("Duration is out of range") == "duration is out of range"
