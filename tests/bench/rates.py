"""Part of `make bench ONLY=standalone`: documents that need no embedding, and searches beside documents that do."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from services.operator_cli.bulk_load import COMPARED_AT_ONCE
from services.operator_cli.client import Client
from shared.ids import bytes_hash
from tests.bench.report import Row
from tests.bench.standalone import Searches, chunks_of, document, ingest, raw_embedding, turn_size
from tests.e2e.harness import Server

SMALL, TEN_CHUNKS = 1_500, 60
QUICK = (100, 6)
LAPS = 3
_IDLE_S = 8.0  # of searches
_BATCH, _AT_ONCE = 500, 2


def measure(row: Row, *, quick: bool) -> None:
    """Tell `row` the figures."""
    small, large = QUICK if quick else (SMALL, TEN_CHUNKS)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data").start()
        try:
            lines = [document(10**5 + n, 100) for n in range(small)]
            batch(server, lines, "small", "created")
            _unchanged(row, server, lines)
            _reused(row, server, lines, "small documents")
            long = [document(n) for n in range(large)]
            batch(server, long, "large", "created")
            chunks = len(chunks_of(server, "large")) / large
            _reused(row, server, long, f"documents of {chunks:.1f} chunks")
            size = turn_size(server, quick=quick)
            _beside_searches(row, server, [document(10**8 + n) for n in range(LAPS * size)])
        finally:
            server.stop()


def batch(server: Server, texts: Sequence[str], source: str, status: str) -> float:
    """Return the documents a second through `/batch`, with bodies; every document must end with the status."""
    items = [json.dumps({"source": source, "path": f"{n}.md", "text": text}) for n, text in enumerate(texts)]
    bodies = ["\n".join(items[start : start + _BATCH]) for start in range(0, len(items), _BATCH)]
    headers = {"Prefer": "wait=300", "Content-Type": "application/x-ndjson"}
    with server.client(headers=headers, timeout=330) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        begun = time.perf_counter()
        replies = list(pool.map(lambda body: client.post("/rag/ingest/batch", content=body), bodies))
        seconds = time.perf_counter() - begun
    found = {item["status"] for reply in replies for item in reply.raise_for_status().json()["items"]}
    assert found == {status}, f"documents of {source} ended as {found}, not {status}"
    return len(texts) / seconds


def compared(server: Server, texts: Sequence[str], source: str) -> float:
    """Return the documents a second that the loader compares with the server, by their hashes."""
    held = [(Path(f"{n}.md"), f"{n}.md", bytes_hash(text.encode())) for n, text in enumerate(texts)]
    with Client(server.url) as client:
        begun = time.perf_counter()
        for start in range(0, len(held), COMPARED_AT_ONCE):
            client.unchanged(held[start : start + COMPARED_AT_ONCE], {"source": source})
        return len(held) / (time.perf_counter() - begun)


def _unchanged(row: Row, server: Server, texts: Sequence[str]) -> None:
    rates = _laps(
        lambda: batch(server, texts, "small", "unchanged"),
        lambda: compared(server, texts, "small"),
        lambda: len(texts) / ingest(server, texts, "small", parallel=64),
    )
    row("unchanged, /batch with bodies", f"{rates[0]} documents/s", "≥ 1,000")
    row("unchanged, compared by the loader", f"{rates[1]} documents/s", "≥ 1,000")
    row("unchanged, one HTTP request each", f"{rates[2]} documents/s", "≥ 900")


def _reused(row: Row, server: Server, texts: Sequence[str], what: str) -> None:
    sources = (f"again {what} {lap}" for lap in range(LAPS))
    [rate] = _laps(lambda: batch(server, texts, next(sources), "created"))
    row(f"reused, {what} under another source", f"{rate} documents/s", "≥ 300")


def _beside_searches(row: Row, server: Server, texts: Sequence[str]) -> None:
    with Searches(server) as idle:
        time.sleep(_IDLE_S)  # the time in which the searches run
    pipeline, alone, took = [], [], []
    for lap in range(LAPS):  # in turn, because the machine's own speed drifts
        part = texts[lap::LAPS]
        with Searches(server) as busy:
            seconds = ingest(server, part, f"new{lap}")
        took += busy.milliseconds
        chunks = chunks_of(server, f"new{lap}")
        pipeline.append(len(chunks) / seconds)
        with Searches(server):
            alone.append(len(chunks) / raw_embedding(part, len(chunks)))
    row("hybrid search, idle", str(idle), "")
    p95s = [statistics.quantiles(each, n=20)[-1] for each in (took, idle.milliseconds) if len(each) > 1]
    ratio = f"{p95s[0] / p95s[1]:.2f}" if len(p95s) == 2 else "too few searches"
    row("… beside documents being embedded", f"p50 {statistics.median(took):.1f} ms, p95 {p95s[0]:.1f} ms", "")
    row("… p95 beside them over idle", ratio, "≤ 2")
    row("pipeline, beside 20 searches/s", f"{statistics.median(pipeline):.1f} chunks/s", "")
    row("embedder alone, beside the same searches", f"{statistics.median(alone):.1f} chunks/s", "")
    ratios = sorted(ours / theirs for ours, theirs in zip(pipeline, alone, strict=True))
    row("… pipeline over embedder", f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})", "≥ 0.95")


def _laps(*measures: Callable[[], float]) -> list[str]:
    """Return the median and the range of each, measured in turn."""
    seen = list(zip(*([each() for each in measures] for _ in range(LAPS)), strict=True))
    return [f"{statistics.median(each):,.0f} ({min(each):,.0f} to {max(each):,.0f})" for each in seen]
