import httpx
import pytest
from litestar import Litestar, get

from services.query_api.http.problems import HANDLERS, Problem, body, media_type, of_pipeline
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


@get(["/retrieval", "/api/retrieval", "/rag/retrieval"])
async def refused() -> None:
    raise Problem(404, "there is no such knowledge")


@pytest.mark.parametrize(("path", "difys"), [("/retrieval", True), ("/api/retrieval", True), ("/rag/retrieval", False)])
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
