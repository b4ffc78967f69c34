"""Pages of other sites get nothing; everybody else passes."""

from collections.abc import Mapping
from functools import partial

import httpx
import pytest
from litestar import Litestar, get, post

from services.query_api.http.browsers import BrowserGuard, add_safe_headers
from services.query_api.http.linger import Linger

CALLED: list[str] = []


@get("/", opt={"page": True})
async def page() -> str:
    return "the page"


@post("/rag/ingest", status_code=200)
async def change() -> str:
    CALLED.append("changed")
    return "changed"


@post("/ops/erase", status_code=200, opt={"json_only": True})
async def erase() -> str:
    CALLED.append("erased")
    return "erased"


@get("/rag/documents")
async def documents() -> str:
    return "secret"


def client(*, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = (), keyless: bool = True) -> httpx.AsyncClient:
    CALLED.clear()
    guard = BrowserGuard(hosts=hosts, origins=origins, keyless=lambda: keyless)
    app = Litestar(
        [page, change, erase, documents],
        middleware=[Linger(), guard],
        before_send=[partial(add_safe_headers, bool(origins))],
        openapi_config=None,
        logging_config=None,
    )
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # Litestar's types of the same protocol are narrower
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:3000")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:3000",
        "localhost",
        "LOCALHOST:3000",
        "[::1]:3000",
        "host.docker.internal:3000",
        "nas.local",
        "127.9.9.9",
    ],
)
async def test_without_keys_the_server_s_own_names_pass(host: str) -> None:
    async with client(hosts=("nas.local",)) as api:
        reply = await api.get("/rag/documents", headers={"Host": host})

    assert reply.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:3000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.5",
        "nas.local.evil",
        "[::2]",
    ],
)
async def test_without_keys_a_rebound_name_reads_nothing(host: str) -> None:
    async with client(hosts=("nas.local",)) as api:
        reply = await api.get("/rag/documents", headers={"Host": host})

    assert (reply.status_code, reply.json()["code"]) == (403, "HOST_NOT_ALLOWED")
    assert "secret" not in reply.text


async def test_with_keys_any_name_passes() -> None:
    async with client(keyless=False) as api:
        reply = await api.get("/rag/documents", headers={"Host": "sluice.example"})

    assert reply.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8080"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://["},
        {"Origin": "http://[x]"},
        {"Origin": "null", "Host": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "cross-site"},
    ],
)
@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=b", "application/json", ""],
)
@pytest.mark.parametrize("path", ["/rag/ingest", "/ops/erase"])
async def test_a_foreign_page_changes_nothing(headers: Mapping[str, str], kind: str, path: str) -> None:
    async with client() as api:
        reply = await api.post(path, headers={**headers, **({"Content-Type": kind} if kind else {})}, content=b"a=b")

    assert (reply.status_code, reply.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert CALLED == []


async def test_a_foreign_page_may_link_to_the_page_and_read_nothing_else() -> None:
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    async with client() as api:
        visited = await api.get("/", headers=linked)
        framed = await api.get("/", headers={**linked, "Sec-Fetch-Dest": "iframe"})
        read = await api.get("/rag/documents", headers=linked)

    assert [reply.status_code for reply in (visited, framed, read)] == [200, 403, 403]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_own_pages_and_programs_pass(headers: Mapping[str, str]) -> None:
    async with client() as api:
        reply = await api.post("/rag/ingest", headers=headers, content=b"a=b")

    assert reply.status_code == 200


@pytest.mark.parametrize("origins", [("https://chat.example",), ("*",)])
async def test_a_listed_origin_passes(origins: tuple[str, ...]) -> None:
    headers = {"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site"}

    async with client(origins=origins) as api:
        reply = await api.post("/rag/ingest", headers=headers, content=b"a=b")

    assert reply.status_code == 200


async def test_a_route_may_take_json_and_nothing_that_a_form_can_send() -> None:
    path = "/ops/erase"

    async with client() as api:
        form = await api.post(path, data={"source": "s"})
        plain = await api.post(path, content=b'{"source": "s"}', headers={"Content-Type": "text/plain"})
        untyped = await api.post(path, content=b'{"source": "s"}')
        json = await api.post(path, json={"source": "s"})
        empty = await api.post(path)

    assert [reply.status_code for reply in (form, plain, untyped, json, empty)] == [415, 415, 415, 200, 200]


async def test_every_reply_tells_browsers_not_to_guess() -> None:
    async with client() as api:
        replies = [await api.get("/"), await api.get("/rag/documents", headers={"Host": "evil.example"})]

    for reply in replies:
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
