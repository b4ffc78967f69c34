import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from litestar import Litestar

from services.query_api.app import ROUTES
from services.query_api.http.route_decorator import allow_methods, delete, get, index_of, post, routes_in


@get("/rag/documents/{document_id:str}", role="query", line="show a document")
async def shown(document_id: str) -> None: ...


@post("/rag/hidden", role="ingest", lane="bring")
async def hidden() -> None: ...


def test_a_route_without_a_line_is_not_on_the_index_page() -> None:
    assert index_of([shown, hidden]) == {"GET /rag/documents/{id}": "show a document"}
    assert hidden.opt["lane"] == "bring"


HEADER = "from litestar import delete, get\n"


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """Give two rooms; importing one module of the first fails."""
    files = {
        "upper/__init__.py": "",
        "upper/one.py": HEADER + "@get('/b')\nasync def b() -> None: ...\n@delete('/a')\nasync def a() -> None: ...\n",
        "upper/two.py": HEADER + "from upper.one import b\n@get('/a')\nasync def a() -> None: ...\n",
        "upper/slow.py": "raise ImportError('an extra')\n",
        "lower/__init__.py": "",
        "lower/three.py": HEADER + "@get('/')\nasync def c() -> None: ...\n",
    }
    for name, code in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield [importlib.import_module(name) for name in ("upper", "lower")]
    for name in [each for each in sys.modules if each.partition(".")[0] in ("upper", "lower")]:
        del sys.modules[name]  # the next test's are in another folder


def test_routes_are_found_room_by_room_and_by_path(rooms: list[ModuleType]) -> None:
    found = routes_in(rooms, excluding={"upper.slow"})

    assert [f"{min(each.http_methods)} {min(each.paths)}" for each in found] == [
        "GET /a",
        "DELETE /a",
        "GET /b",  # defined in one module and imported by another, found once
        "GET /",
    ]


def test_a_module_that_is_not_left_out_is_imported(rooms: list[ModuleType]) -> None:
    with pytest.raises(ImportError, match="an extra"):
        routes_in(rooms)


def test_the_api_has_each_route_once() -> None:
    assert len({(min(each.http_methods), min(each.paths), each.fn.__module__) for each in ROUTES}) == len(ROUTES) > 60


@get("/things", open=True)
async def listed() -> None: ...


@delete("/things", open=True)
async def removed() -> None: ...


@get("/other", open=True)
async def other() -> None: ...


async def test_options_names_the_methods_of_all_handlers_of_the_path() -> None:
    app = Litestar([listed, removed, other], before_send=[allow_methods], openapi_config=None, logging_config=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:  # type: ignore[arg-type]
        things, others = await client.options("/things"), await client.options("/other")

    assert (things.status_code, things.headers["allow"]) == (204, "DELETE, GET, OPTIONS")
    assert others.headers["allow"] == "GET, OPTIONS"
