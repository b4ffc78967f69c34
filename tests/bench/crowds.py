"""`make bench ONLY=crowds`: how long others wait while one tenant, or nobody in particular, holds many connections.

The others' searches run in a process of their own, so that the crowd's client doesn't slow them down.
"""

import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from services.query_api.documents.detail import KEEP_ALIVE_S
from services.query_api.http.opaque_tokens import Signer
from shared.contracts import LogPosition
from shared.runtime.connections import HEADERS_S
from tests.bench.report import Row
from tests.e2e.harness import Server, served

HALF_OPEN, WATCHERS, ENDLESS_S = 2000, 500, 4.0
STAYS_S = 8.0  # after the crowd has come
CROWD, OTHER = "crowd-key-of-twenty-characters", "other-key-of-twenty-characters"
SECRET = "with which the server signs"
KEYS = f"{CROWD}:crowd:admin,{OTHER}:other:admin"
DOCUMENTS = 20

Crowd = Callable[[tuple[str, int], str], Coroutine[Any, Any, str]]


def search_until_told(url: str) -> None:
    """Search until standard input ends; then print, as JSON, when each search began and how many seconds it took."""
    host = url.removeprefix("http://")
    took: list[tuple[float, float]] = []
    headers = {"Authorization": f"Bearer {OTHER}", "Content-Type": "application/json"}
    os.set_blocking(0, False)
    print("ready", flush=True)
    number = 0
    while sys.stdin.buffer.read(1) != b"":
        number += 1
        began = time.time()
        connection = http.client.HTTPConnection(host, timeout=60)  # a new one, as a new client's
        connection.request("POST", "/rag/search", json.dumps({"query": f"lantern {number}"}), headers)
        reply = connection.getresponse()
        reply.read()
        connection.close()
        took.append((began, time.time() - began if reply.status == 200 else 1000.0 + reply.status))
        time.sleep(0.01)  # the pace of one client
    print(json.dumps(took))


async def _opened(address: tuple[str, int], data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    return reader, writer


async def endless_headers(address: tuple[str, int], _document: str) -> str:
    """Send fields without an end on ten connections; return how they ended."""

    async def one() -> str:
        reader, writer = await _opened(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with suppress(ConnectionError):
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b"X-Field: " + b"v" * 4000 + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            return (await reader.readline()).decode().strip()
        return "reset"

    ends: Counter[str] = Counter()
    until = time.monotonic() + ENDLESS_S
    while time.monotonic() < until:
        ends.update(await asyncio.gather(*(one() for _ in range(10))))
    return ", ".join(f"{count} x {end}" for end, count in ends.items())


async def half_open(address: tuple[str, int], _document: str) -> str:
    """Open connections whose headers never end; return how many were open at the end."""
    head = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    crowd = await asyncio.gather(*(_opened(address, head) for _ in range(HALF_OPEN)))
    await asyncio.sleep(min(STAYS_S, HEADERS_S * 0.8))
    still = sum(not reader.at_eof() for reader, _ in crowd)
    for _, writer in crowd:
        writer.close()
    return f"{still} of {HALF_OPEN} open"


async def watchers(address: tuple[str, int], document: str) -> str:
    """Watch one document that never ends; return the watchers' replies, and how many were open at the end."""
    since = Signer(SECRET.encode()).submission("crowd", LogPosition(partition=0, offset=10**12, time=10**15))
    head = (
        f"GET /rag/documents/{document}/events?since={since} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {CROWD}\r\n\r\n"
    ).encode()

    async def one() -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await _opened(address, head)
        return (await reader.readline()).decode().strip(), reader, writer

    crowd = await asyncio.gather(*(one() for _ in range(WATCHERS)))
    told = Counter(line for line, _, _ in crowd)
    await asyncio.sleep(min(STAYS_S, KEEP_ALIVE_S))
    for _, _, writer in crowd:
        writer.close()
    return ", ".join(f"{count} x {line}" for line, count in told.items())


CROWDS: dict[str, tuple[Crowd, str]] = {
    "endless headers": (endless_headers, "≤ 5 MB"),
    f"{HALF_OPEN} half-open": (half_open, "≤ 40 MB"),
    f"{WATCHERS} watchers of one tenant": (watchers, "≤ 40 MB"),
}


def _memory(server: Server) -> int:
    info = psutil.Process(server.pid).memory_info()
    return int(info.rss - info.shared)


def _loaded(server: Server) -> str:
    """Return the id of the crowd's document."""
    ids = []
    for key in (CROWD, OTHER):
        with server.client(headers={"Authorization": f"Bearer {key}", "Prefer": "wait=60"}) as client:
            for number in range(DOCUMENTS):
                body = {"source": "s", "path": f"{number}", "text": f"Lantern {number} burns all night long."}
                reply = client.post("/rag/ingest", json=body)
                reply.raise_for_status()
                ids.append(reply.json()["documentId"])
            for number in range(20):
                client.post("/rag/search", json={"query": f"warm {number}"}).raise_for_status()
    return str(ids[0])


def measure(row: Row) -> None:
    """Pass to `row`, for each crowd: its replies, the longest search beside it, and the memory it cost."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (crowd, bar) in CROWDS.items():
            data = Path(folder) / name.split()[-1]
            with served(data, API_KEYS=KEYS, SECRET=SECRET, LOG_LEVEL="error") as server:
                document = _loaded(server)
                idle = _memory(server)
                host, port = server.url.removeprefix("http://").split(":")
                command = [sys.executable, "-m", "tests.bench.crowds", server.url]
                with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as searcher:
                    assert searcher.stdin is not None
                    assert searcher.stdout is not None
                    searcher.stdout.readline()
                    time.sleep(1)  # searches without the crowd, for comparison
                    began = time.time()
                    told = asyncio.run(crowd((host, int(port)), document))
                    ended = time.time()
                    most = _memory(server)
                    took, _ = searcher.communicate()
                _tell(row, name, json.loads(took), began, ended)
                row(f"{name}: the server's memory", f"{(most - idle) / 2**20:+.1f} MB; {told}", bar)
                assert server.ready()


def _tell(row: Row, name: str, took: Sequence[tuple[float, float]], began: float, ended: float) -> None:
    before = [seconds for at, seconds in took if at < began]
    beside = sorted(seconds for at, seconds in took if began <= at <= ended)
    load = os.getloadavg()[0]
    row(
        f"{name}: others' searches",
        f"longest {beside[-1]:.2f} s, next {beside[-2]:.2f}, median {1000 * statistics.median(beside):.0f} ms of "
        f"{len(beside)} (alone {1000 * statistics.median(before):.0f} ms; load {load:.1f})",
        "< 1 s",
    )


if __name__ == "__main__":
    search_until_told(sys.argv[1])
