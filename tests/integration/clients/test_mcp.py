"""The Model Context Protocol by its own client, in both eras, over HTTP and over stdio."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from services.query_api.app import ApiParts
from tests.docs.readme import ROOT
from tests.integration.api import an_app, listening, problem
from tests.integration.clients.site import Site
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])  # 2026-07-28 without a handshake, and those before
QUESTION = "When is the lantern lit?"


@asynccontextmanager
async def connected(site: Site, mode: Any = "auto", key: str | None = None) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key or site.key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{site.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@ERAS
async def test_an_agent_finds_the_tools_and_sees_that_they_only_read(quoting: Site, mode: str) -> None:
    async with connected(quoting, mode) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == ["search", "fetch", "ask"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
    assert tools[0].input_schema["required"] == ["query"]
    assert all(tool.output_schema and tool.output_schema["type"] == "object" for tool in tools)


@ERAS
async def test_an_agent_searches_and_reads(quoting: Site, mode: str) -> None:
    async with connected(quoting, mode) as client:
        found = await client.call_tool("search", {"query": QUESTION, "tags": ["light"]})
        document = await client.call_tool("fetch", {"id": found.structured_content["results"][0]["id"]})

    [result] = found.structured_content["results"]
    assert (result["id"], result["title"]) == (quoting.lantern, "Lantern")
    assert result["url"] == f"{quoting.url}/documents/{quoting.lantern}"
    assert "six in the evening" in document.structured_content["text"]
    assert document.structured_content["metadata"]["tags"] == ["light"]
    for told in (found, document):  # ChatGPT reads the text, others the structure
        [item] = told.content
        assert item.type == "text"
        assert json.loads(item.text) == told.structured_content


async def test_an_agent_asks_and_gets_sources_by_number(quoting: Site) -> None:
    async with connected(quoting) as client:
        told = (await client.call_tool("ask", {"question": QUESTION, "top_k": "3"})).structured_content

    assert told["answer"] == "The lantern on the pier is lit at six in the evening. [1]"
    assert (told["sources"][0]["number"], told["sources"][0]["id"]) == (1, quoting.lantern)


@ERAS
async def test_documents_are_resources(quoting: Site, mode: str) -> None:
    async with connected(quoting, mode) as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        [content] = (await client.read_resource(f"sluice://documents/{quoting.lantern}")).contents

    assert {each.name for each in listed} == {"lantern.md", "herons.md"}
    assert [each.uri_template for each in templates] == ["sluice://documents/{id}"]
    assert "whale oil" in getattr(content, "text", "")


async def test_another_tenant_s_documents_do_not_exist(quoting: Site, chatting: Site) -> None:
    async with connected(chatting) as client:
        found = await client.call_tool("search", {"query": QUESTION})
        fetched = await client.call_tool("fetch", {"id": quoting.lantern})
        with pytest.raises(MCPError, match="there is no such document"):
            await client.read_resource(f"sluice://documents/{quoting.lantern}")

    assert quoting.lantern not in {each["id"] for each in found.structured_content["results"]}
    assert (fetched.is_error, getattr(fetched.content[0], "text", "")) == (True, "there is no such document")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search", {}, "query: is required"),
        ("search", {"query": " "}, "query: must not be empty"),
        ("search", {"query": "x", "top_k": 0}, "top_k: must be at least 1"),
        ("fetch", {"id": "x"}, "there is no such document"),
    ],
)
async def test_wrong_arguments_are_told_in_a_sentence(
    quoting: Site, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with connected(quoting, "legacy") as client:
        told = await client.call_tool(tool, arguments)

    assert told.is_error
    assert said in getattr(told.content[0], "text", "")


async def test_who_may_not_ask_is_told_by_http(quoting: Site) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    stranger = await quoting.http.post("/mcp", json=call, headers={"Authorization": "Bearer nobody's"})
    writer = await quoting.http.post("/mcp", json=call, headers={"Authorization": "Bearer key-writer"})
    listening = await quoting.http.get("/mcp")

    problem(stranger, 401)
    problem(writer, 403)
    assert "by POST" in problem(listening, 405)
    assert listening.headers["allow"] == "POST"


async def test_a_limit_that_is_met_while_the_body_is_read_is_told_by_its_status(quoting: Site) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"jsonrpc": "2.0", "method": "'
        yield b"x" * 65_536

    problem(await quoting.http.post("/mcp", content=pieces(), headers={"Content-Type": "application/json"}), 413)


async def test_without_the_extra_the_server_says_how_to_add_it(quoting: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # how Python marks what can't be imported

    assert "extra `mcp`" in problem(await quoting.http.post("/mcp", json={}), 501, "NOT_INSTALLED")


async def test_an_agent_s_answers_count_for_its_key(parts: ApiParts, quoting: Site) -> None:
    rated = parts.settings.model_copy(update={"chat_rate": 1})
    async with (
        listening(an_app(parts, settings=rated)) as (host, port),
        connected(quoting._replace(url=f"http://{host}:{port}")) as client,
    ):
        first = await client.call_tool("ask", {"question": QUESTION})
        second = await client.call_tool("ask", {"question": QUESTION})
        searched = await client.call_tool("search", {"query": QUESTION})

    assert (first.is_error, second.is_error, searched.is_error) == (False, True, False)
    assert "SLUICE_CHAT_RATE" in getattr(second.content[0], "text", "")


# stdio


def started(site: Site, **environment: str) -> StdioServerParameters:
    settings = {"SLUICE_URL": site.url, "SLUICE_API_KEY": site.key, "PYTHONPATH": str(ROOT), **environment}
    return StdioServerParameters(command=sys.executable, args=["-m", "services.operator_cli", "mcp"], env=settings)


@ERAS
@CI_ONLY
async def test_sluice_mcp_speaks_the_same_over_stdio(quoting: Site, mode: Any) -> None:
    async with Client(started(quoting), mode=mode) as client:
        found = await client.call_tool("search", {"query": QUESTION})
        [content] = (await client.read_resource(f"sluice://documents/{quoting.lantern}")).contents

    assert found.structured_content["results"][0]["id"] == quoting.lantern
    assert "whale oil" in getattr(content, "text", "")


@CI_ONLY
async def test_sluice_mcp_without_a_server_says_so_and_goes_on() -> None:
    notice = b'{"jsonrpc": "2.0", "method": "notifications/x"}'
    lines = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}\n\nno JSON\n' + notice
    environment = {"SLUICE_URL": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}

    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "services.operator_cli", "mcp"],
        input=lines,
        capture_output=True,
        env=environment,
        check=True,
        timeout=60,
    )

    answers = {answer["id"]: answer["error"] for answer in map(json.loads, ran.stdout.splitlines())}
    assert answers.keys() == {7, None}
    assert "no Sluice answers at http://127.0.0.1:9; start it" in answers[7]["message"]
    assert answers[None]["code"] == -32700
