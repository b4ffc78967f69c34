"""Open WebUI's web search, document loader and tools, and web pages that call from a browser."""

import asyncio
import re
from urllib.parse import quote

import httpx
import pytest

from services.ingest_worker.extract import Hints
from services.ingest_worker.parsers import ParserPool
from services.query_api.app import ApiParts
from services.standalone.parser_adapter import FileReader
from tests.integration.api import a_client, an_app, problem
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = "https://chat.example.org"


async def test_the_web_search_finds_passages_with_links(quoting: Site) -> None:
    reply = await quoting.http.post("/web-search", json={"query": "When is the lantern lit?", "count": 2})

    first, *_ = reply.json()
    assert first.keys() == {"link", "title", "snippet"}
    assert (first["title"], quoting.lantern in first["link"]) == ("Lantern", True)
    assert len({each["link"] for each in reply.json()}) == len(reply.json()) == 2


async def test_the_document_loader_reads_a_file_and_keeps_nothing(quoting: Site, parts: ApiParts) -> None:
    async with a_client(an_app(parts), quoting.key.removeprefix("key-of-")) as client:
        before = (await client.get("/rag/documents")).json()["items"]
        headers = {"Content-Type": "text/html", "X-Filename": quote("Ebbe & Flut.html")}
        page = b"<html><head><title>Tides</title></head><body><p>High water is at noon.</p></body></html>"
        reply = await client.put("/process", content=page, headers=headers)
        after = (await client.get("/rag/documents")).json()["items"]

    assert "High water is at noon." in reply.json()["page_content"]
    metadata = reply.json()["metadata"]
    assert (metadata["source"], metadata["title"], metadata["documentType"]) == ("Ebbe & Flut.html", "Tides", "html")
    assert after == before


async def test_the_document_loader_says_what_it_cannot_read(quoting: Site) -> None:
    empty = await quoting.http.put("/process", content=b"")
    damaged = await quoting.http.put("/process", content=b"%PDF-1.7 no", headers={"X-Filename": "a.pdf"})
    reader = await quoting.http.put("/process", content=b"x", headers={"Authorization": "Bearer key-reader"})

    problem(empty, 400)
    assert "a.pdf" in problem(damaged, 422)
    problem(reader, 403)


async def test_the_document_loader_says_that_all_parsers_are_busy(quoting: Site, parts: ApiParts) -> None:
    pool = ParserPool(1, program="tests.integration.rough_parser", confined=False)
    reader, long = FileReader(lambda: pool, wait_s=0.05), b"." * 65_536

    async with a_client(an_app(parts, file_reader=reader), quoting.key.removeprefix("key-of-")) as client:
        hanging = asyncio.create_task(pool.extract(b"ROUGH hang /dev/null 0 " + long, Hints(), tenant="other"))
        await asyncio.sleep(0)  # it takes the only turn
        reply = await client.put("/process", content=b"ROUGH pid - 0 " + long, headers={"X-Filename": "a.rough"})
        hanging.cancel()
        await asyncio.gather(hanging, pool.close(), return_exceptions=True)

    assert problem(reply, 503) == "all parsers are busy with other files"
    assert int(reply.headers["retry-after"]) > 0


async def test_the_tools_are_the_routes_that_only_read(quoting: Site) -> None:
    schema = (await quoting.http.get("/tools/openapi.json")).json()

    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert {each["operationId"] for each in operations} == {
        "rag_search",
        "rag_query",
        "chat",
        "rag_documents",
        "rag_document_text",
    }
    assert all(each["description"] for each in operations)
    assert all([*each["responses"]] == ["200"] for each in operations)


async def test_every_operation_has_a_short_name_that_says_what_it_is(quoting: Site) -> None:
    schema = (await quoting.http.get("/openapi.json")).json()

    names = [operation["operationId"] for path in schema["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) > 20
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){0,3}", name)] == []  # no framework makes these


@CI_ONLY
async def test_a_web_page_may_call_only_if_its_origin_is_set(parts: ApiParts) -> None:
    open_to_page = parts.settings.model_copy(update={"cors_origins": f"{PAGE}, http://localhost:5173"})
    asks = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}

    async def allowed(client: httpx.AsyncClient, origin: str) -> tuple[str | None, str | None]:
        before = await client.options("/v1/chat/completions", headers=asks | {"Origin": origin})
        then = await client.get("/v1/models", headers={"Origin": origin})
        return tuple(reply.headers.get("access-control-allow-origin") for reply in (before, then))

    async with a_client(an_app(parts, settings=open_to_page), "t0") as client:
        assert await allowed(client, PAGE) == (PAGE, PAGE)
        assert await allowed(client, "https://evil.example") == (None, None)
        refused = await client.get("/v1/models", headers={"Origin": PAGE, "Authorization": "Bearer nobody's"})
    async with a_client(an_app(parts), "t0") as client:
        assert await allowed(client, PAGE) == (None, None)

    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
