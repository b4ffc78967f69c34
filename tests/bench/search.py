"""Search at 100,000 chunks: one caller, fifty callers beside ten chat streams, and what the API itself costs.

The chunks are written into the index directly, with random vectors: embedding them would take an hour.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from msgspec import Struct

from services.embed_worker.points import chunk_points, head_of
from services.query_api.app import ApiParts
from services.standalone.serve import start
from shared.contracts import DocumentVersion
from shared.embedder import Vector
from shared.ids import document_id
from shared.settings import Settings
from tests.bench.report import Row
from tests.builders import a_version, chunks_of
from tests.e2e.harness import Server
from tests.e2e.text import WORDS

TENANT = "default"
FILTER = {"tags": ["even"]}  # half of the documents
WARM_UP = 20


class Size(Struct, frozen=True):
    """How much is written and asked."""

    documents: int = 1_000
    chunks_each: int = 100
    searches: int = 300
    searchers: int = 50
    streams: int = 10
    seconds: float = 60.0


QUICK = Size(documents=10, chunks_each=20, searches=30, searchers=5, streams=2, seconds=2.0)


def measure(row: Row, size: Size) -> None:
    """Tell `row` the figures."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        begun = time.perf_counter()
        asyncio.run(_filled(data, size))
        seconds = time.perf_counter() - begun
        row("chunks in the index", f"{size.documents * size.chunks_each}, written in {seconds:.0f} s", "")
        server = Server(data).start()
        try:
            asyncio.run(_searched(row, server, size))
        finally:
            server.stop()


async def _filled(data: Path, size: Size) -> None:
    async with AsyncExitStack() as stack:
        await _fill(await start(Settings(data=data, samples="off", chat="extractive:"), stack), size)


async def _searched(row: Row, server: Server, size: Size) -> None:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
        await _alone(row, client, size)
        await _together(row, client, size)


async def _fill(parts: ApiParts, size: Size) -> None:
    rng, noise = random.Random(1), np.random.default_rng(1)
    vocabulary = WORDS.split()
    for number in range(size.documents):
        path = f"{number}.md"
        document = a_version(
            document_id=document_id(TENANT, "bench", path),
            tenant=TENANT,
            source="bench",
            path=path,
            tags=("even",) if number % 2 == 0 else ("odd",),
        )
        await _write(
            parts, document, [" ".join(rng.choices(vocabulary, k=100)) for _ in range(size.chunks_each)], noise
        )
    await parts.index.flush()


async def _write(parts: ApiParts, document: DocumentVersion, texts: Sequence[str], noise: np.random.Generator) -> None:
    chunks = chunks_of(*texts)
    vectors: list[Vector] = [_unit(noise, parts.embedder.model.dimension) for _ in chunks]
    sparse = await parts.bm25.documents(list(texts))
    await parts.index.put(chunk_points(document, chunks, slice(0, len(chunks)), vectors, sparse))
    await parts.index.switch(head_of(document, len(chunks)))


def _unit(noise: np.random.Generator, dimension: int) -> Vector:
    vector = noise.standard_normal(dimension, dtype=np.float32)
    unit: Vector = vector / np.linalg.norm(vector)
    return unit


def _queries(seed: int) -> Iterator[str]:
    rng, vocabulary = random.Random(seed), WORDS.split()
    while True:
        yield " ".join(rng.sample(vocabulary, 4))


async def _search(client: httpx.AsyncClient, query: str, **how: Any) -> dict[str, Any]:
    reply = await client.post("/rag/search", json={"query": query, "explain": True, **how})
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()
    return found


async def _alone(row: Row, client: httpx.AsyncClient, size: Size) -> None:
    queries = _queries(1)
    for _ in range(WARM_UP):
        await _search(client, next(queries))
    for what, how in (("", {}), (", filtered", {"filters": FILTER})):
        whole, own = [], []
        for _ in range(size.searches):
            begun = time.perf_counter()
            found = await _search(client, next(queries), **how)
            whole.append(1000 * (time.perf_counter() - begun))
            own.append(whole[-1] - found["timings"]["storeMs"] - found["timings"]["embedMs"])
        row(f"hybrid search{what}, one caller", _shown(whole), "p95 ≤ 10 ms")
        row(f"… of which neither store nor model{what}", f"p50 {statistics.median(own):.1f} ms", "≤ 2 ms")


async def _together(row: Row, client: httpx.AsyncClient, size: Size) -> None:
    until = time.perf_counter() + size.seconds
    searches: list[float] = []
    streams: list[float] = []
    errors = 0

    async def repeat(call: Callable[[str], Awaitable[object]], seed: int, taken: list[float]) -> None:
        nonlocal errors
        for query in _queries(seed):
            begun = time.perf_counter()
            if begun >= until:
                return
            try:
                await call(query)
            except httpx.HTTPError:
                errors += 1
            taken.append(1000 * (time.perf_counter() - begun))

    async def stream(query: str) -> None:
        body = {"message": query, "useRag": True, "stream": True}
        async with client.stream("POST", "/chat", json=body) as reply:
            reply.raise_for_status()
            async for _ in reply.aiter_bytes():
                pass

    await asyncio.gather(
        *(repeat(lambda query: _search(client, query), 100 + n, searches) for n in range(size.searchers)),
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
