"""The doors of a running server: it is killed, kept waiting by slow senders, and given a large batch."""

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.faults import rounds, submitted
from tests.e2e.harness import Server, everything_ended, served
from tests.e2e.load import new_seed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UPLOADS = 200
AT_ONCE = 20  # so that a kill finds some of them at each step
SLOW = 500
TEXT = "Herons nest in the old willow behind the boathouse, and nobody may disturb them before June. " * 4


def standing(server: Server, status: str) -> int:
    """Return how many documents stand so."""
    count = 0
    cursor: str | None = ""
    with server.client() as client:
        while cursor is not None:
            query = {"status": status, "limit": "1000", "cursor": cursor}
            page = client.get("/rag/documents", params=query).json()
            count += len(page["items"])
            cursor = page["nextCursor"]
    return count


async def uploads_until_killed(server: Server, round_: int, answers: int) -> dict[str, bool]:
    """Return the paths of all uploads, and whether each was confirmed; so many answers are awaited before the kill."""
    confirmed: dict[str, bool] = {}
    enough = asyncio.Event()

    async def upload(client: httpx.AsyncClient, path: str) -> None:
        confirmed[path] = False
        try:
            reply = await client.post(
                "/rag/ingest/upload", files={"file": (path, TEXT.encode())}, headers={"Prefer": "wait=0"}
            )
        except httpx.TransportError:
            return
        assert reply.is_success, reply.text
        confirmed[path] = True
        if sum(confirmed.values()) >= answers:
            enough.set()

    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=server.url, timeout=60, verify=False, limits=limits) as client:
        sending = asyncio.gather(*(upload(client, f"{round_}-{n}.txt") for n in range(UPLOADS)))
        async with asyncio.timeout(120):
            await enough.wait()
        await asyncio.to_thread(server.kill)
        await sending
    return confirmed


def test_what_was_confirmed_before_a_kill_is_on_the_log_once(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    server = Server(tmp_path / "data")
    confirmed: dict[str, bool] = {}
    try:
        for round_ in range(rounds(ci=2)):
            server.start()
            confirmed |= asyncio.run(uploads_until_killed(server, round_, rng.randrange(1, UPLOADS // 2)))
        server.start()
        everything_ended(server)
        created = standing(server, "created")
        assert server.stop() == 0
    finally:
        server.stop()
    logged = asyncio.run(submitted(server.data))

    print(f"{len(confirmed)} uploads, {sum(confirmed.values())} confirmed, {logged.total()} on the log")
    assert [path for path, sure in confirmed.items() if sure and logged[path] != 1] == []
    assert [path for path, times in logged.items() if times > 1] == []
    assert created == logged.total()


async def slow_upload(server: Server) -> str:
    """Return the status line after sending a byte now and then of a file that never ends."""
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    writer.write(b"POST /rag/ingest/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n")
    answer = asyncio.create_task(reader.readline())
    while not (await asyncio.wait({answer}, timeout=0.5))[0]:
        writer.write(b"x")
    writer.close()
    return answer.result().decode().strip()


async def normal_traffic(client: httpx.AsyncClient, stop: asyncio.Event) -> list[float]:
    """Return the seconds of each request, all of which were served, until told to stop."""
    times: list[float] = []
    while not stop.is_set():
        number = len(times)
        began = time.perf_counter()
        if number % 2:
            reply = await client.post("/rag/search", json={"query": "herons"})
        else:
            body = {"source": "s", "path": f"{number % 10}", "text": TEXT}
            reply = await client.post("/rag/ingest", json=body, headers={"Prefer": "wait=0"})
        times.append(time.perf_counter() - began)
        assert reply.is_success, reply.text
        await asyncio.sleep(0.02)
    return times


async def beside_slow_senders(server: Server) -> tuple[Counter[str], list[float]]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        stop = asyncio.Event()
        normal = asyncio.create_task(normal_traffic(client, stop))
        async with asyncio.timeout(240):
            lines = await asyncio.gather(*(slow_upload(server) for _ in range(SLOW)))
        stop.set()
        return Counter(lines), await normal


def test_slow_senders_keep_nobody_waiting(tmp_path: Path) -> None:
    with served(tmp_path / "data", BODY_TIMEOUT="12") as server:
        lines, times = asyncio.run(beside_slow_senders(server))

    p50, p95 = (quantiles(times, n=100)[percent - 1] for percent in (50, 95))
    print(f"{dict(lines)}; {len(times)} normal requests: p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms")
    assert set(lines) <= {"HTTP/1.1 429 Too Many Requests", "HTTP/1.1 408 Request Timeout"}
    assert lines["HTTP/1.1 408 Request Timeout"] >= 256
    assert len(times) > 20


@contextmanager
def highest_memory(pid: int) -> Iterator[list[int]]:
    """Give a list whose last number will be the most bytes that the process had of its own meanwhile."""
    process, stop, seen = psutil.Process(pid), threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.02):
            info = process.memory_info()
            seen[-1] = max(seen[-1], info.rss - info.shared)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()


def test_a_large_batch_goes_in_whole_and_costs_little_memory(tmp_path: Path) -> None:
    count = rounds(ci=1_000)

    def body(first: int, beyond: int) -> Iterator[bytes]:
        for n in range(first, beyond):
            item: dict[str, Any] = {"source": "s", "path": str(n), "text": TEXT if n % 100 else True}
            yield json.dumps(item).encode() + b"\n"

    with served(tmp_path / "data") as server, server.client(timeout=600) as client:
        headers = {"Content-Type": "application/x-ndjson"}
        client.post("/rag/ingest/batch", content=body(count, count + 100), headers=headers).raise_for_status()
        everything_ended(server)
        info = psutil.Process(server.pid).memory_info()
        with highest_memory(server.pid) as seen:
            began = time.perf_counter()
            told = client.post("/rag/ingest/batch", content=body(0, count), headers=headers).json()
            took = time.perf_counter() - began
        everything_ended(server)
        created = standing(server, "created")

    above = (seen[-1] - (info.rss - info.shared)) / 1e6
    print(f"{count} items taken in {took:.1f} s, {above:.0f} MB above idle")
    assert (told["taken"], told["failed"]) == (count * 99 // 100, count // 100)
    assert {each["index"] % 100 for each in told["items"] if each["status"] == "failed"} == {0}
    assert {each["error"] for each in told["items"] if each["status"] == "failed"} == {"text: must be text, not true"}
    assert created == count * 99 // 100 + 99
    assert above < 150
