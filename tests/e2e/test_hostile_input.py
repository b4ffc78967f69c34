"""Hostile files and requests against a running server: no reply is a 500, no process dies, and every submission ends.

CI tries a few of each, by a seed of the commit's; SLUICE_TEST_COUNT sets how many.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.faults import rounds
from tests.e2e.harness import Server, everything_ended, served
from tests.e2e.load import new_seed
from tests.integration import wire_bombs
from tests.integration.hostile_files import HostileFile, hostile_files
from tests.integration.hostile_run import internals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

AT_ONCE = 4
SILENT_S = 3.0  # after this much silence, a connection's replies are complete
CODES = {"EMPTY", "UNSUPPORTED", "DAMAGED", "PASSWORD", "TIMEOUT", "TOO_LARGE"}
_REPLY = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(.*?)\r\n\r\n", re.DOTALL)
LANTERN = {"source": "good", "path": "lantern.md", "text": "The lantern on the pier is lit at six in the evening."}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(tmp_path / "data", BODY_TIMEOUT="2", CHAT="extractive:") as server:
        yield server


def processes(server: Server) -> set[int]:
    """Return the processes that must survive: the server's and the store's."""
    return {each.pid for each in server.family()[:1]} | {
        each.pid for each in server.family() if any("edge_server" in part for part in each.cmdline())
    }


def unharmed(server: Server, before: set[int]) -> None:
    """Check that no process died, that no bug was logged, and that the server still accepts and finds documents."""
    assert before <= {each.pid for each in server.family()}
    assert server.ready(), server.tail()
    logged = server.log.read_text(errors="replace")
    assert [line for line in logged.splitlines() if "request_failed" in line or "Traceback" in line] == []
    with server.client(headers={"Prefer": "wait=60"}) as client:
        assert client.post("/rag/ingest", json=LANTERN).json()["status"] in ("created", "unchanged")
        assert client.post("/rag/search", json={"query": "lantern"}).json()["results"]


# Files


async def uploaded(client: httpx.AsyncClient, file: HostileFile) -> str:
    """Return what is wrong with the reply, None if nothing is."""
    files = {"file": (file.name, file.data)}
    reply = await client.post("/rag/ingest/upload", files=files, headers={"Prefer": "wait=0"})
    if reply.status_code == 202:
        return ""
    body = reply.json()
    if reply.status_code == 503:
        return "" if "retry-after" in reply.headers and body["detail"] else f"503: {reply.text}"
    honest = reply.status_code < 500 and body["detail"] and not internals(body["detail"])
    return "" if honest else f"{reply.status_code}: {reply.text[:500]}"


async def all_uploaded(server: Server, files: Iterator[HostileFile]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what was done to each file by its name, and what is wrong with the replies."""
    told: dict[str, str] = {}
    wrong: dict[str, str] = {}

    async def worker() -> None:
        for file in files:
            told[file.name] = file.how
            if said := await uploaded(client, file):
                wrong[f"{file.name}: {file.how}"] = said

    async with httpx.AsyncClient(base_url=server.url, timeout=120, verify=False) as client:
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return told, wrong


def ends(server: Server) -> dict[str, dict[str, Any]]:
    """Return the documents by their paths."""
    found: dict[str, dict[str, Any]] = {}
    with server.client() as client:
        cursor: str | None = ""
        while cursor is not None:
            page = client.get("/rag/documents", params={"limit": 1000, "cursor": cursor}).json()
            found |= {item["path"]: item for item in page["items"]}
            cursor = page["nextCursor"]
    return found


def test_every_hostile_file_ends_with_a_state_and_a_sentence_of_ours(server: Server) -> None:
    seed, count = new_seed(), rounds(ci=24)
    before = processes(server)

    told, wrong = asyncio.run(all_uploaded(server, hostile_files(seed, count)))
    everything_ended(server)

    unharmed(server, before)
    found = ends(server)
    for name, how in told.items():
        if (item := found.get(name)) is None:
            continue  # refused by the route
        code, sentence = item.get("code"), item.get("error") or ""
        if item["status"] == "created" and not sentence:
            continue
        honest = item["status"] == "failed" and code in CODES and name in sentence and not internals(sentence)
        if not honest:
            wrong[f"{name}: {how}"] = f"{item['status']} {code}: {sentence}"
    states = Counter(item.get("code") or item["status"] for item in found.values())
    print(f"{len(told)} hostile files, seed {seed}: {dict(states)}")
    assert wrong == {}


# Requests


async def replies(server: Server, data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return status, headers and what follows of each reply on a new connection that sends the bytes."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    async def send() -> None:
        writer.write(data)
        await writer.drain()

    sending, read = asyncio.create_task(send()), b""
    try:
        async with asyncio.timeout(60):  # a guard
            while piece := await asyncio.wait_for(reader.read(65_536), SILENT_S):
                read += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
    starts = [*_REPLY.finditer(read)]
    bounds = [each.start() for each in starts[1:]] + [len(read)] * bool(starts)
    return [(int(each[1]), each[2], read[each.end() : end]) for each, end in zip(starts, bounds, strict=True)]


async def all_sent(server: Server, bombs: Iterator[wire_bombs.Request]) -> tuple[Counter[int], dict[str, str]]:
    """Return the number of replies by status, and the forbidden replies."""
    statuses: Counter[int] = Counter()
    wrong: dict[str, str] = {}

    async def worker() -> None:
        for number, bomb in numbered:
            found = await replies(server, bomb.data)
            statuses.update(status for status, _, _ in found or [(0, b"", b"")])
            for status, headers, body in found:
                honest = status == 503 and b"retry-after" in headers.lower() and b'"detail"' in body
                if status >= 500 and not honest:
                    shown = body[:300].decode(errors="replace")
                    wrong[f"{number}: {bomb.name} {bomb.data[:200]!r}"] = f"{status} {shown}"

    numbered = enumerate(bombs)
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return statuses, wrong


def test_no_hostile_request_is_answered_by_a_500(server: Server) -> None:
    seed, count = new_seed(), rounds(ci=34)
    before = processes(server)

    statuses, wrong = asyncio.run(all_sent(server, wire_bombs.requests(seed, count)))
    everything_ended(server)

    print(f"{count} hostile requests, seed {seed}: {dict(sorted(statuses.items()))} (0: no reply)")
    assert wrong == {}
    unharmed(server, before)
