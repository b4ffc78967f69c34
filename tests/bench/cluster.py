"""The distributed size: Sluice as separate processes on a real Kafka and Ollama, all of them on this machine.

Documents are written to `documents.submitted` as any producer would, so that no HTTP is measured. One is done when the
embed worker has committed it: stored, answering, its status written, and all of it on the disk.
"""

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import psutil
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from shared.contracts import DEFAULT_TENANT, DocumentSubmitted, encode
from shared.ids import document_id
from shared.log.kafka import KafkaLog, kafka_address
from shared.topics import SUBMITTED
from tests.bench.report import Row
from tests.e2e.cluster import Cluster, cluster, servers
from tests.e2e.text import paragraphs
from tests.servers import kafka, ollama
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import EMBEDDING_MODEL, OllamaServer

CHUNKS = 5  # of a document
TURNS = 3
CALLS = tuple(itertools.product((8, 32, 64), (1, 2)))  # to Ollama: texts of one, how many at a time
HANG_GUARD_S = 600.0
_POLL_S = 0.02

Document = Sequence[str]  # its chunks


class Size(msgspec.Struct, frozen=True):
    """How much is measured."""

    documents: int = 40  # embedded, a turn
    copies: int = 8  # of all that were embedded, a turn


QUICK = Size(documents=10, copies=2)


def measure(row: Row, size: Size) -> None:
    """Tell `row` the figures, or in one line why there are none."""
    if lacking := [name for name, server in {"Kafka": kafka, "Ollama": ollama}.items() if not server.RECIPE.ready]:
        row("distributed size", f"not measured: no {' and no '.join(lacking)} here; make servers builds them", "")
        return
    with (
        tempfile.TemporaryDirectory() as name,
        KafkaServer(kafka.RECIPE.folder, Path(name) / "kafka") as broker,
        OllamaServer(ollama.RECIPE.folder, Path(name) / "ollama") as model,
        cluster(Path(name), SAMPLES="off", **servers(broker.address, model.url)) as sluice,
    ):
        asyncio.run(_measure(row, size, broker, model, sluice))


async def _measure(row: Row, size: Size, broker: KafkaServer, model: OllamaServer, sluice: Cluster) -> None:
    library = [paragraphs(number, CHUNKS) for number in range((1 + TURNS) * size.documents)]
    warm, *parts = (library[at : at + size.documents] for at in range(0, len(library), size.documents))
    async with _pipeline(broker.address) as pipeline, _asked(model.url) as asked:
        await pipeline.seconds({"warm": warm})
        texts = [text for document in warm for text in document]
        call = max([(await asked.rate(texts[:128], *call), call) for call in CALLS])[1]
        ours, theirs = [], []
        for turn, part in enumerate(parts):  # in turn, because the machine's own speed drifts
            texts = [text for document in part for text in document]
            ours.append(len(texts) / await pipeline.seconds({f"part{turn}": part}))
            theirs.append(await asked.rate(texts, *call))
        row("Ollama asked directly", f"{_median(theirs)} texts/s ({call[0]} a call, {call[1]} at once)", "")
        row("pipeline through Kafka, to Ollama", f"{_median(ours)} texts/s", "")
        row("pipeline over Ollama asked directly", _ratio(ours, theirs), "≥ 0.95")

        usage = {"broker": broker.pid, **{process.role: process.pid for process in sluice.processes.values()}}
        rates, spent = [], []
        for turn in range(TURNS):
            before = _cpu_seconds(usage)
            count = size.copies * len(library)
            rates.append(count / await pipeline.seconds({f"{turn}/{copy}": library for copy in range(size.copies)}))
            spent.append({who: 1000 * (now - before[who]) / count for who, now in _cpu_seconds(usage).items()})
        row(f"vectors reused, {CHUNKS} chunks each", f"{_median(rates)} documents/s", "≥ 150")
        each = {who: statistics.median(turn[who] for turn in spent) for who in spent[0]}
        told = ", ".join(f"{who} {milliseconds:.2f}" for who, milliseconds in each.items())
        row("… CPU ms a document", f"{sum(each.values()):.2f}: {told}", "")


def _median(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def _cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return what each of these has used with its children, and this process, which submits."""
    used = {"client": time.process_time()}
    for who, pid in pids.items():
        process = psutil.Process(pid)
        times = [member.cpu_times() for member in (process, *process.children(recursive=True))]
        used[who] = sum(time.user + time.system for time in times)
    return used


class _Pipeline:
    """Puts documents into the log, and waits until the last stage has committed them."""

    def __init__(self, log: KafkaLog, producer: AIOKafkaProducer, generation: str) -> None:
        self._log = log
        self._producer = producer
        self._group = f"embed.{generation}", f"chunks.{generation}"

    async def seconds(self, sources: Mapping[str, Sequence[Document]]) -> float:
        """Return how long all documents of these sources took, none of which was there."""
        wanted = await self._done() + sum(len(documents) for documents in sources.values())
        begun = time.perf_counter()
        async with asyncio.timeout(HANG_GUARD_S):
            for source, documents in sources.items():
                for number, document in enumerate(documents):
                    await self._submit(source, f"{number}.md", "\n\n".join(document))
            while await self._done() < wanted:  # noqa: ASYNC110 - other processes: there is nothing to await
                await asyncio.sleep(_POLL_S)
        return time.perf_counter() - begun

    async def _submit(self, source: str, path: str, text: str) -> None:
        value = encode(DocumentSubmitted(source=source, path=path, text=text))
        await self._producer.send(SUBMITTED, value, key=document_id(DEFAULT_TENANT, source, path).encode())

    async def _done(self) -> int:
        """Return how many versions are committed. There is one a document: none is sent twice."""
        return sum(offset or 0 for offset in (await self._log.committed(*self._group)).values())


@asynccontextmanager
async def _pipeline(address: str) -> AsyncIterator[_Pipeline]:
    log = KafkaLog(kafka_address(f"kafka://{address}"))
    producer = AIOKafkaProducer(bootstrap_servers=address, acks="all", linger_ms=5)
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    try:
        await asyncio.gather(log.start(), producer.start(), admin.start())
        [generation] = [topic.removeprefix("chunks.") for topic in await admin.list_topics() if "chunks." in topic]
        yield _Pipeline(log, producer, generation)
    finally:
        await asyncio.gather(log.stop(), producer.stop(), admin.close())


class _Ollama:
    """The server that the pipeline uses, asked by the shortest way."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def rate(self, texts: Sequence[str], many: int, at_once: int) -> float:
        """Return texts a second in calls of `many`."""
        calls = iter([texts[at : at + many] for at in range(0, len(texts), many)])

        async def ask(calls: Iterator[Sequence[str]]) -> None:
            for some in calls:
                reply = await self._client.post("/api/embed", json={"model": EMBEDDING_MODEL, "input": some})
                reply.raise_for_status()

        begun = time.perf_counter()
        await asyncio.gather(*(ask(calls) for _ in range(at_once)))
        return len(texts) / (time.perf_counter() - begun)


@asynccontextmanager
async def _asked(url: str) -> AsyncIterator[_Ollama]:
    async with httpx.AsyncClient(base_url=url, timeout=HANG_GUARD_S, verify=False) as client:
        yield _Ollama(client)
