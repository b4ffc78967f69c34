"""The standalone size: one command on a temporary folder, beside what its embedder alone could do."""

import asyncio
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from services.ingest_worker.chunk import CHUNKER, version_chunks
from shared.settings import Settings
from shared.state.index import Generation
from tests.bench.report import Row
from tests.builders import a_version, default_embedder
from tests.e2e.background import Background
from tests.e2e.growth import anonymous_bytes
from tests.e2e.harness import Server
from tests.e2e.text import WORDS

CHARACTERS = 5_500
TURNS = 3
_TURN_S = 8.0  # so long that a search's p95 beside it isn't that of two searches, on a fast machine, too
_PROBE, _MOST = 30, 1_000
_QUICK_TURN = 4  # documents
_SENT = {"Content-Type": "application/json", "Prefer": "wait=300"}


def document(number: int, characters: int = CHARACTERS) -> str:
    """Return Markdown of about `characters`, in paragraphs and sections of uneven length."""
    rng = random.Random(f"bench/{number}")
    vocabulary, parts, length = WORDS.split(), [f"# Report {number}"], 0
    while length < characters:
        words = [rng.choice(vocabulary) for _ in range(rng.randint(30, 90))]
        parts.append(" ".join(words).capitalize() + f" {rng.randrange(10**6)}.")
        length += len(parts[-1])
        if rng.random() < 0.2:
            parts.append(f"## Part {len(parts)}")
    return "\n\n".join(parts)


def ingest(server: Server, texts: Sequence[str], source: str, parallel: int = 32) -> float:
    """Return the seconds until every document has ended, by bare connections: httpx takes more CPU than the server."""
    here = threading.local()

    def connect() -> None:
        here.connection = HTTPConnection(urlsplit(server.url).netloc, timeout=330)

    def send(number: int) -> None:
        body = json.dumps({"source": source, "path": f"{number}.md", "text": texts[number]})
        here.connection.request("POST", "/rag/ingest", body, _SENT)
        reply = here.connection.getresponse()
        said = reply.read()
        assert reply.status < 400, said

    begun = time.perf_counter()
    with ThreadPoolExecutor(parallel, initializer=connect) as pool:
        list(pool.map(send, range(len(texts))))
    return time.perf_counter() - begun


def turn_size(server: Server, *, quick: bool) -> int:
    """Return how many documents keep this machine busy for about eight seconds; two are loaded first to warm it up."""
    ingest(server, [document(10**6 + n) for n in range(2)], "warm")
    if quick:
        return _QUICK_TURN
    seconds = ingest(server, [document(2 * 10**6 + n) for n in range(_PROBE)], "probe")
    return min(_MOST, max(_PROBE, round(_PROBE * _TURN_S / seconds)))


def chunks_of(server: Server, source: str) -> list[str]:
    """Return the texts of all chunks of a source's documents."""
    texts: list[str] = []
    with server.client() as client:
        for item in client.get("/rag/documents", params={"source": source, "limit": 1000}).json()["items"]:
            after: dict[str, str] = {}
            while True:
                page = client.get(f"/rag/documents/{item['documentId']}/chunks", params=after).json()
                texts += [chunk["text"] for chunk in page["items"]]
                if not page["nextCursor"]:
                    break
                after = {"cursor": page["nextCursor"]}
    return texts


def raw_embedding(documents: Sequence[str], count: int) -> float:
    """Return the seconds the embedder alone needs, with everything else quiet, for the `count` chunks of the documents.

    It is given what the pipeline gives it: each chunk below its title and section.
    """

    async def run() -> float:
        embedder = default_embedder()
        await embedder.start()
        size, overlap = (Settings.model_fields[name].default for name in ("chunk_size", "chunk_overlap"))
        generation = Generation(CHUNKER, size, overlap, embedder.model, bm25="none")
        texts = []
        for text in documents:
            version = a_version(title=text.partition("\n")[0].removeprefix("# "), text_format="markdown")
            cut = version_chunks(version, text, (), generation=generation, tokens=embedder.tokens)
            texts += [chunk.embedded for chunk in cut]
        assert len(texts) == count, f"{len(texts)} chunks here, {count} in the index"
        await embedder.embed_documents(texts[:4])
        begun = time.perf_counter()
        await embedder.embed_documents(texts)
        seconds = time.perf_counter() - begun
        await embedder.close()
        return seconds

    return asyncio.run(run())


def cpu_seconds(server: Server) -> float:
    """Return what the server has used with its children."""
    times = [process.cpu_times() for process in server.family()]
    return float(sum(time.user + time.system for time in times))


class Searches(Background):
    """Searches at a steady rate in a thread, and keeps how long each took."""

    def __init__(self, server: Server, per_second: float = 20) -> None:
        super().__init__(self._run)
        self.milliseconds: list[float] = []
        self._server, self._every = server, 1 / per_second

    def _run(self) -> None:
        rng = random.Random(1)
        with self._server.client() as client:
            while not self.stopping.wait(self._every):
                query = " ".join(rng.sample(WORDS.split(), 3))
                begun = time.perf_counter()
                client.post("/rag/search", json={"query": query, "topK": 5}).raise_for_status()
                self.milliseconds.append(1000 * (time.perf_counter() - begun))

    def __str__(self) -> str:
        p95 = statistics.quantiles(self.milliseconds, n=20)[-1] if len(self.milliseconds) > 20 else float("nan")
        return f"p50 {statistics.median(self.milliseconds):.1f} ms, p95 {p95:.1f} ms, {len(self.milliseconds)} searches"


def measure(row: Row, *, quick: bool) -> None:
    """Tell `row` the figures."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        server = Server(Path(folder) / "data").start()
        try:
            row("first start, exec to ready", f"{time.perf_counter() - begun:.1f} s", "≤ 5 s")
            texts = [document(number) for number in range(TURNS * turn_size(server, quick=quick))]
            pipeline, alone = [], []
            for turn in range(TURNS):  # in turn, because the machine's own speed drifts
                part = texts[turn::TURNS]
                seconds = ingest(server, part, f"bench{turn}")
                chunks = chunks_of(server, f"bench{turn}")
                pipeline.append(len(chunks) / seconds)
                alone.append(len(chunks) / raw_embedding(part, len(chunks)))
            row("pipeline", f"{statistics.median(pipeline):.1f} chunks/s", "")
            row("embedder alone, same chunks", f"{statistics.median(alone):.1f} chunks/s", "")
            ratios = sorted(ours / theirs for ours, theirs in zip(pipeline, alone, strict=True))
            seen = f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
            row("pipeline over embedder", seen, "≥ 0.85, aim 0.95")
            before = cpu_seconds(server)
            seconds = ingest(server, texts, "again")
            row("the same under another source, no embedding", f"{len(texts) / seconds:.0f} documents/s", "")
            used = cpu_seconds(server) - before
            row("… per CPU-second of all its processes", f"{len(texts) / used:.0f} documents", "≥ 150")
            with Searches(server) as idle:
                time.sleep(5)  # the time in which the searches run
            row("search, idle", str(idle), "")
            server.metric("sluice_event_loop_longest_gap_seconds")
            with Searches(server) as busy:
                ingest(server, [document(10**7, 2_000_000 if not quick else 200_000)], "large")
            gap = server.metric("sluice_event_loop_longest_gap_seconds")
            row("search, 2 MB of Markdown beside it", str(busy), "≤ 3 × idle")
            row("event loop's longest gap meanwhile", f"{1000 * gap:.0f} ms", "≤ 50 ms")
            row(
                "anonymous memory, all processes",
                f"{sum(anonymous_bytes(each.pid) for each in server.family()) / 2**20:.0f} MB",
                "≤ 600 MB",
            )
            server.stop()
            begun = time.perf_counter()
            server.start()
            row("ready again on this index", f"{time.perf_counter() - begun:.1f} s", "≤ 5 s")
        finally:
            server.stop()
