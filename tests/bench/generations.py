"""Generations: how long a rollback and a switch take while the index is used, and how fast a generation is built.

The searchers are in a process of their own. Searchers with a pause search as people do; those without ask again at
once, which fills both cores whatever a search costs.
"""

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tests.bench.report import Row
from tests.bench.searchers import SOURCE, STEADY, STEADY_WORDS, Seen, beside, text_of
from tests.e2e.harness import Server
from tests.e2e.text import paragraphs

PEOPLE_S = 1.0  # mean pause of a searcher after a reply: 20 of them search about 20 times a second
MODEL = "minilm:"  # of the second generation: the default's, with 32-bit products


class Size(msgspec.Struct, frozen=True):
    """How much is loaded and tried."""

    documents: int = 200
    chunks_each: int = 5
    turns: int = 8  # rollbacks, and as many switches
    searchers: int = 20
    settle_s: float = 5.0  # before the first switch, with the searchers at work
    built: int = 1_000  # documents of the build with the same model
    apart_s: float = 1.0  # between two switches


QUICK = Size(documents=12, turns=1, searchers=4, settle_s=0.5, built=20, apart_s=0.2)


def measure(row: Row, size: Size) -> None:
    """Pass to `row` the figures."""
    with _loaded(size.documents, size) as server:
        _post(server, "start", {"embedder": MODEL})
        _until_ready(server)
        first = 0
        for name, think_s in (("nobody searches", None), ("people search", PEOPLE_S), ("searches without a pause", 0)):
            first += _switch(row, server, size, name, think_s, first)
    with _loaded(size.built, size) as server:
        _build(row, server, size)


def _switch(row: Row, server: Server, size: Size, name: str, think_s: float | None, first: int) -> int:
    searchers = 0 if think_s is None else size.searchers
    took: dict[str, list[float]] = {"switch": [], "rollback": []}
    with beside(server.url, searchers=searchers, think_s=think_s or 0.0, ingest_every_s=1.0, first=first) as load:
        time.sleep(size.settle_s)  # the time in which the searchers find their pace
        for _ in range(size.turns):
            for what, seconds in took.items():
                body = {"id": _other(server)} if what == "switch" else {}
                begun = time.perf_counter()
                _post(server, what, body)
                seconds.append(time.perf_counter() - begun)
                time.sleep(size.apart_s)
    seen = load.seen
    for what, seconds in took.items():
        each = ", ".join(f"{second:.2f}" for second in sorted(seconds))
        row(f"{what}, {name}", f"{max(seconds):.2f} s at most: {each}", "< 1 s")
    row(f"searches, {name}", _searched(seen), "0 failed")
    lost = [number for number in range(first, first + seen.sent) if not _there(server, number)]
    row(
        f"ingests, {name}",
        f"{seen.ended} of {seen.sent} created, {seen.ended / seen.seconds:.2f} a second, "
        f"{max(seen.ingest_ms):.0f} ms at most, {len(lost)} not found once afterwards",
        "1 a second, 0 missing or doubled",
    )
    return seen.sent


def _searched(seen: Seen) -> str:
    if not seen.searches:
        return "none"
    p95 = statistics.quantiles(seen.search_ms, n=20)[-1] if len(seen.search_ms) > 20 else float("nan")
    return (
        f"{seen.failed} of {seen.searches} failed, {seen.searches / seen.seconds:.1f} a second, p50 "
        f"{statistics.median(seen.search_ms):.0f} ms, p95 {p95:.0f} ms {seen.first_failure}"
    )


def _there(server: Server, number: int) -> bool:
    with server.client() as client:
        body = {"query": text_of(number), "topK": 5}
        hits = client.post("/rag/search", json=body).raise_for_status().json()["results"]
    return [hit["metadata"]["path"] for hit in hits].count(f"new-{number}.md") == 1


def _build(row: Row, server: Server, size: Size) -> None:
    before, embedded = _cpu(server), server.metric("sluice_embedded_texts_total")
    begun = time.perf_counter()
    _post(server, "start", {})
    _until_ready(server)
    seconds = time.perf_counter() - begun
    documents = size.built + 1
    cpu = {name: used - before.get(name, 0.0) for name, used in _cpu(server).items()}
    row("build, same model and chunker", f"{documents / seconds:.0f} documents/s", "≥ 150")
    each = ", ".join(f"{name} {1000 * used / documents:.2f}" for name, used in cpu.items() if used > 0.01)
    row("… CPU of a document", f"{1000 * sum(cpu.values()) / documents:.2f} ms: {each}", "")
    new = server.metric("sluice_embedded_texts_total") - embedded
    row("… texts embedded", f"{new:.0f}", "0")


def _cpu(server: Server) -> dict[str, float]:
    """Return the CPU seconds of each process by what it is."""
    used: dict[str, float] = {}
    for number, process in enumerate(server.family()):
        try:
            name = _name(process.cmdline(), number)
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used[name] = used.get(name, 0.0) + times.user + times.system
    return used


def _name(command: list[str], number: int) -> str:
    if number == 0:
        return "main"
    return "store" if any("edge_server" in part for part in command) else "others"


@contextmanager
def _loaded(documents: int, size: Size) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data").start()
        try:
            texts = {f"{number}.md": "\n\n".join(paragraphs(number, size.chunks_each)) for number in range(documents)}
            _load(server, (texts | {STEADY: STEADY_WORDS}).items())
            yield server
        finally:
            server.stop()


def _load(server: Server, texts: Iterable[tuple[str, str]]) -> None:
    with server.client(headers={"Prefer": "wait=300"}) as client, ThreadPoolExecutor(32) as pool:

        def send(path: str, text: str) -> None:
            body = {"source": SOURCE, "path": path, "text": text}
            client.post("/rag/ingest", json=body, timeout=330).raise_for_status()

        list(pool.map(lambda each: send(*each), texts))


def _post(server: Server, what: str, body: dict[str, Any]) -> None:
    with server.client() as client:
        reply = client.post(f"/ops/generations/{what}", json=body, headers={"Prefer": "wait=60"}, timeout=90)
    assert reply.status_code == 200, reply.text


def _other(server: Server) -> str:
    """Return the generation that doesn't serve."""
    with server.client() as client:
        found = client.get("/ops/generations").json()
    other: str = next(each["id"] for each in found["items"] if each["id"] != found["serving"])
    return other


def _until_ready(server: Server) -> None:
    while True:
        with server.client() as client:
            if "ready" in [each["state"] for each in client.get("/ops/generations").json()["items"]]:
                return
        time.sleep(0.2)  # polling another process
