"""Search over a made-up library: start, disk, memory, recall; one caller, eight, and fifty beside ten chat streams.

The chunks are written with made-up vectors, because embedding them would take an hour. With `keep`, the folder stays
there and is filled once.
"""

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from shared.store.collection_compaction import INDEXED_FROM
from shared.store.edge_engine import Engine
from tests.bench import growth, synthetic
from tests.bench.recall import recall
from tests.bench.report import Row
from tests.e2e.harness import Server

FILTER = {"source": "source-3"}  # a twentieth of the documents
WARM_UP = 20


class Size(Struct, frozen=True):
    """How much is written and asked."""

    chunks: int = 100_000
    searches: int = 300
    clients: int = 8
    searchers: int = 50
    streams: int = 10
    seconds: float = 30.0


QUICK = Size(chunks=200, searches=30, searchers=5, streams=2, seconds=2.0)


def measure(row: Row, size: Size, keep: Path | None = None) -> None:
    """Tell `row` the figures."""
    with growth.folder(keep, size.chunks) as data:
        if not (data / "store").exists():
            begun = time.perf_counter()
            documents = asyncio.run(synthetic.fill(data, size.chunks))
            row("filled", f"{size.chunks} chunks, {documents} documents in {time.perf_counter() - begun:.0f} s", "")
        if size.chunks >= INDEXED_FROM and not growth.has_index(data):
            begun = time.perf_counter()
            growth.build_index(data)
            row("index of the vectors", f"copied and built in {time.perf_counter() - begun:.0f} s", "")
        _recall(row, data, size)
        server = Server(data).start()
        try:
            _started(row, server, size)
            _alone(row, server, size)
            _clients(row, server, size)
            asyncio.run(_together(row, server, size))
            _memory(row, server)
        finally:
            server.stop()


def _recall(row: Row, data: Path, size: Size) -> None:
    engine = Engine(data / "store")
    engine.load(lambda _name, _seconds: None)
    try:
        for what, tenant, source in (("", synthetic.TENANT, None), (", filtered to 5 %", synthetic.TENANT, "source-3")):
            found = recall(engine, size.chunks, tenant, source)
            row(f"recall@10 of the dense leg{what}", f"{found:.3f}", "≥ 0.98")
    finally:
        engine.close()


def _started(row: Row, server: Server, size: Size) -> None:
    row("ready", f"{time.monotonic() - server.launched:.1f} s", "≤ 5 s")
    connection = connected(server.url)
    row("first search", f"{_posted(connection, {'query': next(_queries(size, 0))})[0] / 1000:.2f} s", "≤ 1 s")
    connection.close()
    used = sum(path.stat().st_blocks * 512 for path in (server.data / "store").rglob("*") if path.is_file())
    row("disk per chunk of 600 characters", f"{used / size.chunks / 1000:.1f} kB", "≤ 3.5 kB")


def _memory(row: Row, server: Server) -> None:
    total = sum(growth.anonymous_mb(each) for each in server.family())
    row("anonymous memory of all processes afterwards", f"{total:.0f} MB", "≤ 1500 MB at a million")


def _queries(size: Size, seed: int) -> Iterator[str]:
    """Yield queries of words that the library has."""
    words = synthetic.Words(seed)
    while True:
        yield " ".join(words.drawn(4))


def _alone(row: Row, server: Server, size: Size) -> None:
    """Ask over a plain connection, and read replies when the clock has stopped: a client's own work isn't measured."""
    queries = _queries(size, 1)
    connection = connected(server.url)
    for _ in range(WARM_UP):
        _posted(connection, {"query": next(queries)})
    empty = []
    for _ in range(size.searches):
        begun = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        empty.append(1000 * (time.perf_counter() - begun))
    row("a request that does nothing, one caller", f"p50 {statistics.median(empty):.1f} ms", "")
    for what, how in (("", {}), (", filtered to 5 %", {"filters": FILTER})):
        whole = [_posted(connection, {"query": next(queries), **how})[0] for _ in range(size.searches)]
        embedding, own = [], []
        for _ in range(size.searches):
            taken, reply = _posted(connection, {"query": next(queries), "explain": True, **how})
            timings = json.loads(reply)["timings"]
            embedding.append(timings["embedMs"])
            own.append(taken - timings["storeMs"] - timings["embedMs"])
        row(f"hybrid search{what}, one caller", _shown(whole), "p95 ≤ 15 ms without the query's embedding")
        row(f"… of which embedding the query{what}", f"p50 {statistics.median(embedding):.1f} ms", "")
        row(f"… of which neither store nor model{what}", f"p50 {statistics.median(own):.1f} ms", "≤ 1 ms")
    connection.close()


def connected(url: str) -> HTTPConnection:
    """Return a plain connection: a costlier client's own work would be measured, too."""
    address = urlsplit(url)
    return HTTPConnection(str(address.hostname), address.port, timeout=120)


def _posted(connection: HTTPConnection, body: dict[str, Any]) -> tuple[float, bytes]:
    """Return the milliseconds that a search took, and its reply."""
    sent = json.dumps(body)
    begun = time.perf_counter()
    connection.request("POST", "/rag/search", sent, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    content = reply.read()
    taken = 1000 * (time.perf_counter() - begun)
    assert reply.status == 200, content
    return taken, content


def _clients(row: Row, server: Server, size: Size) -> None:
    """Ask from threads with plain connections: a costlier client would take the processors from the server."""
    until = time.perf_counter() + size.seconds / 3

    def ask(seed: int) -> list[float]:
        connection = connected(server.url)
        taken = []
        for query in _queries(size, seed):
            if time.perf_counter() >= until:
                break
            taken.append(_posted(connection, {"query": query})[0])
        connection.close()
        return taken

    begun = time.perf_counter()
    with ThreadPoolExecutor(size.clients) as pool:
        taken = [*itertools.chain(*pool.map(ask, range(500, 500 + size.clients)))]
    rate = len(taken) / (time.perf_counter() - begun)
    row(f"{size.clients} clients, searches/s", f"{rate:.0f}; {_shown(taken)}", "≥ 150 (≥ 80 at a million)")


async def _together(row: Row, server: Server, size: Size) -> None:
    until = time.perf_counter() + size.seconds
    searches: list[float] = []
    streams: list[float] = []
    errors = 0

    async def repeat(call: Callable[[str], Awaitable[object]], seed: int, taken: list[float]) -> None:
        nonlocal errors
        for query in _queries(size, seed):
            begun = time.perf_counter()
            if begun >= until:
                return
            try:
                await call(query)
            except httpx.HTTPError:
                errors += 1
            taken.append(1000 * (time.perf_counter() - begun))

    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

        async def search(query: str) -> None:
            (await client.post("/rag/search", json={"query": query})).raise_for_status()

        async def stream(query: str) -> None:
            body = {"message": query, "useRag": True, "stream": True}
            async with client.stream("POST", "/chat", json=body) as reply:
                reply.raise_for_status()
                async for _ in reply.aiter_bytes():
                    pass

        await asyncio.gather(
            *(repeat(search, 100 + n, searches) for n in range(size.searchers)),
            *(repeat(stream, 1_000 + n, streams) for n in range(size.streams)),
        )
    what = f"{size.searchers} searchers beside {size.streams} chat streams"
    row(f"{what}, searches", _shown(searches), "")
    row(f"{what}, streams", _shown(streams), "")
    row(f"{what}, errors", str(errors), "0")


def _shown(milliseconds: Sequence[float]) -> str:
    hundredths = statistics.quantiles(milliseconds, n=100)
    figures = f"p50 {hundredths[49]:.1f} ms, p95 {hundredths[94]:.1f} ms, p99 {hundredths[98]:.1f} ms"
    return f"{figures}, {len(milliseconds)} times"
