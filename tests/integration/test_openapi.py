"""`/openapi.json` describes every route: what it takes, each status it has, and an example that works."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute

from services.query_api.http.openapi import described, examples
from tests.docs.examples import fits, sent
from tests.docs.readme import ROOT, block
from tests.docs.routes import routes_table
from tests.selection import CI_ONLY


@pytest.fixture(scope="module")
def spec(app: Litestar) -> dict[str, Any]:
    return described(app)


async def test_each_path_names_its_methods(client: httpx.AsyncClient, spec: dict[str, Any]) -> None:
    for path, item in spec["paths"].items():
        reply = await client.options(path.replace("{", "").replace("}", ""))
        methods = {*reply.headers["allow"].split(", ")}
        assert methods == {"OPTIONS", *map(str.upper, item)}, path


def _operations(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in spec["paths"].values():
        for operation in item.values():
            yield operation["operationId"], operation


def test_every_route_is_described(app: Litestar, spec: dict[str, Any]) -> None:
    missing = {
        f"{method} {route.path_format}"
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (handler, _) in route.route_handler_map.items()
        if method not in ("OPTIONS", "HEAD")
        and method.lower() not in spec["paths"].get(route.path_format, {})
        and not handler.opt.get("page")
        and not route.path_format.startswith("/console")
    }

    assert missing == {
        *("GET /openapi.json", "GET /openapi.json/openapi.json", "GET /openapi.json/{path}"),
        "GET /tools/openapi.json",
    }


def test_every_reply_has_a_schema_and_every_refusal_is_declared(spec: dict[str, Any]) -> None:
    untyped = []
    for name, operation in _operations(spec):
        responses = operation["responses"]
        assert "200" in responses, name
        assert "403" in responses, name
        contents = [each["content"] for each in responses.values() if "content" in each]
        untyped += [name for content in contents for each in content.values() if not each["schema"]]
        assert operation["description"].endswith((".", "`", ")")), name
        assert len(operation["summary"]) < 130, name

    assert untyped == []
    assert ", {}]" not in json.dumps(spec["components"])  # so `tuple[X, ...]` is described: X or anything


def test_every_route_has_an_example_that_fits_its_schemas(spec: dict[str, Any]) -> None:
    for name, operation in _operations(spec):
        example = examples()[name]
        if example.body is not None:
            _check(spec, operation["requestBody"]["content"][example.type]["schema"], example.body, name)
        content = operation["responses"].get(str(example.status), {}).get("content", {})
        if example.reply is not None and "application/json" in content and example.replied == "application/json":
            _check(spec, content["application/json"]["schema"], content["application/json"]["example"], name)


def _check(spec: dict[str, Any], schema: dict[str, Any], value: Any, name: str) -> None:
    found = jsonschema_rs.Draft202012Validator({**schema, "components": spec["components"]}).iter_errors(value)
    said = [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in found]
    assert not said, f"{name}: {said[:3]}"


def test_every_route_is_asked_by_a_test(spec: dict[str, Any]) -> None:
    # By methods of the vendors' clients, in test_openai.py and test_ollama.py.
    stores = {"/v1/vector_stores", "/v1/vector_stores/{id_}"}
    by_clients = {"/v1/models/{name}", "/v1/completions", "/api/pull", *stores}
    files = [file for file in Path(ROOT, "tests").rglob("test_*.py") if file.name != "test_openapi.py"]
    tests = "\n".join(file.read_text(encoding="utf-8") for file in files)
    asked = {
        path
        for path in spec["paths"]
        # The path as a literal, with anything for its parameters.
        if re.search(re.sub(r"\\\{\w+\\\}", r"[^/\"\\s]+", re.escape(path)) + "[\"'?`]", tests)
    }

    assert spec["paths"].keys() - asked == by_clients


def test_the_page_of_all_routes_is_what_the_description_says(spec: dict[str, Any]) -> None:
    assert block("routes") == routes_table(spec), "make docs"


@CI_ONLY
@pytest.mark.slow
async def test_the_examples_work_and_get_the_replies_they_show() -> None:
    got = await sent()

    assert [*got] == [*examples()]
    assert {name for name, example in got.items() if not fits(examples()[name], example)} == set()
