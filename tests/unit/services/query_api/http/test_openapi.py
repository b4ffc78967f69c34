"""What the description derives from a route, and the examples that it shows."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.params import FromPath, FromQuery, JSONBody

from services.query_api.http.openapi import ROLE, described
from services.query_api.http.route_decorator import EVENT_STREAM, JSON, get, post


@get("/open", open=True)
async def opened() -> dict[str, str]:
    """Say something."""
    return {}


@get("/things/{name:str}", role="query", needs_parts=False)
async def thing(name: FromPath[str], least: FromQuery[int] = 0) -> dict[str, int]:
    """Show a thing.

    At length.
    """
    return {name: least}


@post(
    "/v1/things", role="ingest", json_only=True, refuses=(409,), ok={JSON: (int, str), EVENT_STREAM: str}, accepted=True
)
async def things(data: JSONBody[dict[str, int]]) -> None:
    """Take things."""


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    config = OpenAPIConfig(title="t", version="1", use_handler_docstrings=True)
    return described(Litestar([opened, thing, things], openapi_config=config))


def test_an_open_route_can_only_refuse_pages_of_other_sites(spec: dict[str, Any]) -> None:
    operation = spec["paths"]["/open"]["get"]

    assert operation["responses"].keys() == {"200", "403"}
    assert ROLE not in operation
    assert operation["security"] == [{}]


def test_a_route_declares_what_its_guard_lane_path_and_query_imply(spec: dict[str, Any]) -> None:
    operation = spec["paths"]["/things/{name}"]["get"]

    assert operation["responses"].keys() == {"200", "400", "401", "403", "404", "429"}
    assert operation[ROLE] == "query"
    assert operation["summary"] == "Show a thing."


def test_a_route_with_a_body_declares_what_can_be_wrong_with_it(spec: dict[str, Any]) -> None:
    responses = spec["paths"]["/v1/things"]["post"]["responses"]

    assert responses.keys() == {*["200", "202", "400", "401", "403", "408", "409", "413", "415", "429", "503"]}
    assert responses["200"]["content"] == {
        JSON: {"schema": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
        EVENT_STREAM: {"schema": {"type": "string"}},
    }
    assert {"Location", "Link", "Retry-After", "X-Request-Id"} <= responses["202"]["headers"].keys()


def test_routes_of_openais_api_refuse_in_its_own_form(spec: dict[str, Any]) -> None:
    assert spec["paths"]["/v1/things"]["post"]["responses"]["409"] == {"$ref": "#/components/responses/OpenAIError409"}
    assert spec["paths"]["/open"]["get"]["responses"]["403"] == {"$ref": "#/components/responses/Problem403"}


@pytest.mark.parametrize("status", ["429", "503"])
@pytest.mark.parametrize("error", ["Problem", "OpenAIError", "DifyError"])
def test_who_shall_come_again_is_told_when(spec: dict[str, Any], error: str, status: str) -> None:
    assert spec["components"]["responses"][error + status]["headers"]["Retry-After"]["required"] is True


def _schemas(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        yield from (part["schema"],) if isinstance(part.get("schema"), dict) else ()
        for each in part.values():
            yield from _schemas(each)


def test_every_schema_is_a_valid_one(spec: dict[str, Any]) -> None:
    for schema in _schemas(spec["components"]["responses"]):
        jsonschema_rs.Draft202012Validator({**spec, **schema})
