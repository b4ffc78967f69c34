"""What documents and chunks cost by their number: disk, memory, start, and a search. Made-up documents, no model runs.

The table goes into docs/sizing.md. With `keep`, folders are kept there and filled once.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from msgspec import Struct

from shared.store.collection_compaction import INDEXED_FROM, Rewriter
from shared.store.edge_engine import Engine
from shared.store.edge_server import tell
from shared.store.index_builder import IndexBuilder
from tests.bench import synthetic
from tests.bench.report import Row
from tests.e2e.harness import Server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sizing.md"
BEGIN, END = "<!-- begin: growth -->", "<!-- end: growth -->"
CHUNKS_EACH = 7.5  # of a synthetic document, on average
_SEARCHES = 100


class Figures(Struct, frozen=True):
    """What was seen at one size."""

    documents: int
    chunks: int
    indexed: bool
    store_bytes: int
    ready_s: float  # from the command to the first green probe
    first_search_ms: float
    start_cpu_s: float  # of the store's process
    store_mb: float  # anonymous memory of the store's process
    main_mb: float
    search_ms: float  # median through HTTP, hybrid
    store_cpu_ms: float  # of the store's process for a hybrid search
    filtered_cpu_ms: float  # the same, filtered to 5 %


def measure(row: Row, documents: list[int], keep: Path | None) -> None:
    """Pass to `row` the figures of each size, and write them into the page."""
    seen = [_seen(count, keep) for count in documents]
    for each in seen:
        row(f"{each.documents} documents, {each.chunks} chunks", " · ".join(_cells(each)[2:]), "")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{_table(seen)}\n{END}{after}", encoding="utf-8")


def _seen(documents: int, keep: Path | None) -> Figures:
    chunks = int(documents * CHUNKS_EACH)
    with folder(keep, chunks) as data:
        if not (data / "store").exists():
            asyncio.run(synthetic.fill(data, chunks))
        if chunks >= INDEXED_FROM and not has_index(data):
            build_index(data)
        server = Server(data).start()
        ready_s = time.monotonic() - server.launched
        try:
            return _measured(server, documents, chunks, ready_s)
        finally:
            server.stop()


@contextmanager
def folder(keep: Path | None, chunks: int) -> Iterator[Path]:
    """Give the data folder of so many chunks: one that stays, or a temporary one."""
    if keep is not None:
        yield keep / f"{chunks}-chunks"
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary) / "data"


def has_index(data: Path) -> bool:
    """Return whether the vectors in the data folder have an index."""
    return any(data.glob("store/collections/chunks.*/*/segments/*/vector_index/graph.bin"))


def build_index(data: Path) -> None:
    """Build the index of the vectors in the folder as the store's process does, but without rests."""
    asyncio.run(_build_index(data / "store"))


async def _build_index(folder: Path) -> None:
    builder, engine = IndexBuilder(folder), Engine(folder)
    try:
        engine.load(lambda _name, _seconds: None)
        engine.flush()
        await Rewriter(engine, folder, tell, builder, pause=_no_rest).look()
        engine.close()
    finally:
        builder._process.communicate()


async def _no_rest(_seconds: float) -> None:
    await asyncio.sleep(0)


def _measured(server: Server, documents: int, chunks: int, ready_s: float) -> Figures:
    store = next(each for each in server.family() if "edge_server" in " ".join(each.cmdline()))
    start_cpu = _cpu(store)
    words = synthetic.Words(1)
    queries = [" ".join(words.drawn(4)) for _ in range(3 * _SEARCHES + 1)]
    with httpx.Client(base_url=server.url, timeout=60) as client:

        def ask(**more: object) -> float:
            began = time.perf_counter()
            client.post("/rag/search", json={"query": queries.pop(), **more}).raise_for_status()
            return 1000 * (time.perf_counter() - began)

        first = ask()
        for _ in range(_SEARCHES):
            ask()
        before = _cpu(store)
        times = [ask() for _ in range(_SEARCHES)]
        between = _cpu(store)
        for _ in range(_SEARCHES):
            ask(filters={"source": "source-3"})
        after = _cpu(store)
    main = next(each for each in server.family() if each.pid == server.pid)
    return Figures(
        documents=documents,
        chunks=chunks,
        indexed=has_index(server.data),
        store_bytes=sum(path.stat().st_blocks * 512 for path in (server.data / "store").rglob("*") if path.is_file()),
        ready_s=ready_s,
        first_search_ms=first,
        start_cpu_s=start_cpu,
        store_mb=anonymous_mb(store),
        main_mb=anonymous_mb(main),
        search_ms=statistics.median(times),
        store_cpu_ms=1000 * (between - before) / _SEARCHES,
        filtered_cpu_ms=1000 * (after - between) / _SEARCHES,
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def anonymous_mb(process: psutil.Process) -> float:
    """Return the process's anonymous memory in MB."""
    for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cells(each: Figures) -> list[str]:
    return [
        f"{each.documents:,}",
        f"{each.chunks:,}",
        "yes" if each.indexed else "no",
        f"{each.store_bytes / each.chunks / 1000:.1f} kB",
        f"{each.ready_s:.1f} s",
        f"{each.start_cpu_s:.1f} s",
        f"{each.first_search_ms:.0f} ms",
        f"{each.store_mb:.0f} MB",
        f"{each.main_mb:.0f} MB",
        f"{each.search_ms:.1f} ms",
        f"{each.store_cpu_ms:.1f} ms",
        f"{each.filtered_cpu_ms:.1f} ms",
    ]


def _table(seen: list[Figures]) -> str:
    heads = (
        "documents",
        "chunks",
        "index",
        "disk a chunk",
        "ready after",
        "CPU of the store's start",
        "first search",
        "memory of the store",
        "of the main process",
        "search p50, HTTP",
        "CPU in the store",
        "filtered to 5 %",
    )
    lines = [f"| {' | '.join(heads)} |", "| " + " | ".join("---:" for _ in heads) + " |"]
    return "\n".join([*lines, *(f"| {' | '.join(_cells(each))} |" for each in seen)])
