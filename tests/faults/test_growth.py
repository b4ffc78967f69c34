"""Rounds of edits, deletes, re-creations and a replay: what is left is little more than a fresh load of the same end.

Nobody waits for the retention of the log and for the day after which a blob goes: both are said to be over. The figures
of both folders are printed. Both are searched in turns, so that whatever else the machine does slows both down alike.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.blob_collector import BlobCollector
from services.embed_worker.sweep import shorten_deleted, sweep
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.state.index import Generation, Index
from shared.state.ledger import COLLECTION as LEDGER
from shared.store import Filter, Leg, Point, Store
from shared.store.bm25 import current_bm25
from shared.store.collection_compaction import is_due
from shared.store.edge import EdgeStore
from shared.store.open import open_store
from shared.topics import DAY, DEAD_LETTERS, EXTRACTED, STATUS, SUBMITTED, Topic, chunks_topic, readers
from tests.e2e.faults import CHOSEN
from tests.e2e.growth import anonymous_bytes
from tests.e2e.text import paragraph
from tests.integration.pipeline import Pipeline, running
from tests.servers.fake_ollama import EMBEDDING_MODEL, fake_ollama

ROUNDS = int(CHOSEN or 4)
DOCUMENTS = 2000 if CHOSEN else 60
CHUNKS, EDITED, DELETED = 5, DOCUMENTS // 20, DOCUMENTS // 10
AT_ONCE = 100
GUARD_S = 600.0  # a hang guard
MOST = 2.0  # of a fresh load
MOST_SLOWER = 1.2  # of a fresh load
MOST_DELETED = 1024  # bytes that a deleted document keeps for ever
SEARCHES = 800 if CHOSEN else 40  # of each folder
LAPS = 8 if CHOSEN else 2
SMALL = 4 << 20  # bytes of a part that are no growth: a file's first pages, and a log's blocks

Texts = dict[int, list[str]]  # paragraphs by document


class Size(NamedTuple):
    """What a folder holds, when all that is due is done."""

    store: int  # bytes
    blobs: int  # bytes
    log: int  # bytes
    files: int
    truth: int  # records of documents.extracted
    points: int
    entries: int  # bytes of the ledger's entries, as JSON
    memory: int  # bytes of the store's process, after a start and searches


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_given_rounds_of_edits_and_deletes_when_upkeep_has_run_then_it_is_as_large_as_a_fresh_load(
    tmp_path: Path,
) -> None:
    texts = {number: [paragraph(number, 0, at, of=CHUNKS) for at in range(CHUNKS)] for number in range(DOCUMENTS)}
    async with fake_ollama() as server:
        server.context = 2048  # so that a paragraph is a chunk
        settings = {"embedder": f"{server.url.replace('http', 'ollama')}/{EMBEDDING_MODEL}", "compaction_lag": "0"}
        edited, fresh = tmp_path / "edited", tmp_path / "fresh"
        async with running(edited, **settings) as pipeline:
            await _send(pipeline, texts, texts)
            for revision in range(1, ROUNDS + 1):
                await _round(pipeline, texts, revision)
            generation = pipeline.parts.index.generation
            queries = [await _legs(pipeline, generation, texts[number % DOCUMENTS]) for number in range(SEARCHES)]
        await _rewind(Settings(data=edited), generation.id)
        async with running(edited, **settings) as pipeline:
            await _at_rest(pipeline)
            assert pipeline.embedded() == 0, "the replay embeds nothing"
            await _upkeep(pipeline)
        async with running(fresh, **settings) as pipeline:
            await _send(pipeline, texts, texts)
            await _upkeep(pipeline)
        sizes = [await _size(folder, settings, texts) for folder in (edited, fresh)]
        slower = await _slower(edited, fresh, generation, queries)

    for name, grown, plain in zip(Size._fields, *sizes, strict=True):
        print(f"{name}: {grown} after {ROUNDS} rounds, {plain} freshly loaded")
    wrong = [
        f"{name}: {grown} is more than {MOST:g} times {plain}"
        for name, grown, plain in zip(Size._fields, *sizes, strict=True)
        if grown > MOST * plain + (SMALL if name in ("store", "blobs", "log", "memory") and not CHOSEN else 0)
    ]
    assert wrong == []
    assert sizes[0].truth == sizes[1].truth == DOCUMENTS
    assert not CHOSEN or slower <= MOST_SLOWER


@pytest.mark.parametrize("times", [1, 10])
async def test_given_deleted_documents_when_upkeep_has_run_then_each_keeps_at_most_a_kilobyte(
    tmp_path: Path, times: int
) -> None:
    numbers = range(40 // times)
    async with fake_ollama() as server:
        embedder = f"{server.url.replace('http', 'ollama')}/{EMBEDDING_MODEL}"
        async with running(tmp_path / "data", embedder=embedder, compaction_lag=0) as pipeline:
            await _sent_and_deleted(pipeline, [-1], 1)
            await _upkeep(pipeline)
            before = await _kept(pipeline)
            await _sent_and_deleted(pipeline, numbers, times)
            await _upkeep(pipeline)
            after = await _kept(pipeline)
    # The pairing is the installation's: it says once which log the store has read how far.
    each = {name: (after[name] - before[name]) / len(numbers) for name in after.keys() - {"pairing"}}
    print(f"bytes of a document deleted {times} times: {sum(each.values()):.0f}", each)
    assert each["ledger"] > 0 < each["log"], "a deleted document keeps its fences"
    assert sum(each.values()) <= MOST_DELETED


async def _sent_and_deleted(pipeline: Pipeline, numbers: Iterable[int], times: int) -> None:
    """Create and delete each document this often."""

    async def rounds(number: int) -> None:
        names: dict[str, Any] = {"source": "handbook", "path": f"policies/travel/expenses-{number}.md"}
        for revision in range(times):
            text = paragraph(number, revision, 0, of=1)
            await pipeline.send(DocumentSubmitted(**names, title="Travel expenses", text=text), GUARD_S)
            await pipeline.send(DocumentSubmitted(**names, deleted=True), GUARD_S)

    await asyncio.gather(*map(rounds, numbers))


async def _kept(pipeline: Pipeline) -> dict[str, int]:
    """Return the bytes of what is stored: records, payloads and blobs. Tombstones go after a day and don't count.

    The files are larger: the engine adds some 600 bytes of indexes to each document that it ever knew.
    """
    store = open_store(pipeline.settings, attach=True)
    await store.start()
    found = {
        name.partition(".")[0]: sum([len(msgspec.json.encode(point.payload)) async for point in _points(store, name)])
        for name in await store.collections()
    }
    await store.close()
    found["log"] = 0
    for topic in (SUBMITTED, EXTRACTED, STATUS, DEAD_LETTERS, chunks_topic(pipeline.parts.index.generation.id)):
        records = {
            record.offset if topic != EXTRACTED else record.key: record for record in await pipeline.records(topic)
        }
        found["log"] += sum(len(record.key or b"") + len(record.value) for record in records.values() if record.value)
    found["blobs"] = sum(
        path.stat().st_size for path in (pipeline.settings.data / "blobs").rglob("*") if path.is_file()
    )
    return found


async def _points(store: Store, name: str) -> AsyncIterator[Point]:
    after: str | None = None
    while True:
        page = await store.scroll(name, limit=256, after=after)
        for point in page.points:
            yield point
        after = page.after
        if after is None:
            return


async def _round(pipeline: Pipeline, texts: Texts, revision: int) -> None:
    """Edit a paragraph of some documents; delete some others, and send them again."""
    first = (revision * EDITED) % DOCUMENTS
    chosen = [(first + at) % DOCUMENTS for at in range(EDITED)]
    for number in chosen:
        texts[number][revision % CHUNKS] = paragraph(number, revision, revision % CHUNKS, of=CHUNKS)
    await _send(pipeline, texts, chosen)
    if revision <= DELETED // max(1, DELETED // ROUNDS):
        part = max(1, DELETED // ROUNDS)
        gone = range((revision - 1) * part, revision * part)
        await _send(pipeline, {number: [] for number in gone}, gone)
        await _send(pipeline, texts, gone)


async def _send(pipeline: Pipeline, texts: Texts, numbers: Iterable[int]) -> None:
    """Send the documents, or delete those without text, and return when all have ended."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def send(number: int) -> None:
        async with turns:
            body = "\n\n".join(texts[number])
            document = DocumentSubmitted(source="s", path=f"{number}.md", text=body or None, deleted=not body)
            entry = await pipeline.send(document, GUARD_S)
            assert entry.last.status in {"created", "updated", "unchanged", "deleted"}, entry.last

    await asyncio.gather(*map(send, numbers))


async def _rewind(settings: Settings, generation: str) -> None:
    """Set every stage back to the beginning of its topic."""
    async with _log(settings) as log:
        for topic, group in readers(generation).items():
            tool, partitions = log.consumer(group_id=group), await log.end_offsets(topic)
            tool.assign([*partitions])
            await tool.start()
            await tool.commit(dict.fromkeys(partitions, 0))
            await tool.stop()


@asynccontextmanager
async def _log(settings: Settings) -> AsyncIterator[Log]:
    log = SqliteLog(settings.data / "log.sqlite")
    await log.start()
    yield log
    await log.stop()


async def _at_rest(pipeline: Pipeline) -> None:
    async with asyncio.timeout(GUARD_S):
        for topic, group in readers(pipeline.parts.index.generation.id).items():
            while await pipeline.parts.log.committed(group, topic) != await pipeline.parts.log.end_offsets(topic):  # noqa: ASYNC110 - nothing tells when they have nothing left
                await asyncio.sleep(0.1)


async def _upkeep(pipeline: Pipeline) -> None:
    """Do at once what an idle machine does within the retention of the log and a day."""
    await _at_rest(pipeline)
    log, parts = pipeline.parts.log, pipeline.parts
    assert isinstance(log, SqliteLog)
    short = [SUBMITTED, STATUS, chunks_topic(parts.index.generation.id)]
    partitions = {name: len(await log.end_offsets(name)) for name in short}
    await log.ensure_topics([Topic(name=name, partitions=partitions[name], retention_ms=0) for name in short])
    await sweep(parts.index, parts.ledger, parts.publish)
    await shorten_deleted(parts.ledger, now=time.time_ns() // 1_000_000 + DAY)
    async with asyncio.timeout(GUARD_S):
        await log.keep_up()
        while any([await pipeline.records(name) for name in short]):
            await log.keep_up()
    store = open_store(pipeline.settings, attach=True)
    await store.start()
    assert isinstance(store, EdgeStore)
    collector = BlobCollector(
        log=log, store=store, ledger=parts.ledger, blobs=parts.blobs, registry=CollectorRegistry()
    )
    for now in (0, 2 * DAY):
        await collector.collect(now)
    # A rewrite that is due would run beside the searches that are timed.
    async with asyncio.timeout(GUARD_S):
        while any(is_due(size) for size in await store.sizes()):  # noqa: ASYNC110 - the store's process tells nobody
            await asyncio.sleep(1)
    await store.close()
    await log.keep_up()


async def _size(folder: Path, settings: dict[str, str], texts: Texts) -> Size:
    truth = await _reopened(folder, settings, texts)
    store = EdgeStore(folder / "store")
    await store.start()
    generation = next(name for name in await store.collections() if name.startswith("chunks."))
    points = await store.count(generation)
    entries = sum([len(str(point.payload)) async for point in _points(store, LEDGER)])
    memory = anonymous_bytes(store.pid or 0)
    await store.close()
    (blobs, _), (kept, _), (whole, files) = map(_on_disk, (folder / "blobs", folder / "store", folder))
    return Size(kept, blobs, whole - blobs - kept, files, truth, points, entries, memory)


async def _reopened(folder: Path, settings: dict[str, str], texts: Texts) -> int:
    """Return how many versions are in the truth; every document must answer with its own texts."""
    async with running(folder, **settings) as pipeline:
        for number in list(texts)[:: max(1, len(texts) // 50)]:
            shown = await pipeline.texts(document_id("default", "s", f"{number}.md"))
            assert " ".join(shown).split() == " ".join(texts[number]).split()
        newest = {record.key: record.value for record in await pipeline.records(EXTRACTED)}
        return sum(value is not None for value in newest.values())


async def _legs(pipeline: Pipeline, generation: Generation, paragraphs: Sequence[str]) -> list[Leg]:
    text = paragraphs[0]
    dense = await pipeline.parts.embedder.embed_query(text)
    return [Leg(dense=dense), Leg(sparse=current_bm25().query(text))]


async def _slower(edited: Path, fresh: Path, generation: Generation, queries: Sequence[Sequence[Leg]]) -> float:
    """Return the p95 of searches in `edited` as a multiple of that in `fresh`.

    Each lap has new processes, because on a busy machine one of two alike processes may wait longer all its life.
    """
    times: dict[Path, list[float]] = {edited: [], fresh: []}
    spent: dict[Path, float] = dict.fromkeys(times, 0.0)
    for lap in range(LAPS):
        stores = {folder: EdgeStore(folder / "store") for folder in random.sample([*times], len(times))}
        for folder, store in stores.items():
            await store.start()
            await Index(store, generation).warm()
            spent[folder] -= _cpu_s(store)
        for legs in queries[lap::LAPS]:
            for folder in random.sample([*stores], len(stores)):
                began = time.perf_counter()
                await Index(stores[folder], generation).search("default", legs, Filter(), limit=20)
                times[folder].append(time.perf_counter() - began)
        for folder, store in stores.items():
            spent[folder] += _cpu_s(store)
            await store.close()
    p95 = {}
    for folder, taken in times.items():
        ordered = sorted(taken)
        p50, p95[folder] = (1e3 * ordered[int(share * len(ordered))] for share in (0.5, 0.95))
        shown = f"p50 {p50:.2f} ms, p95 {p95[folder]:.2f} ms, CPU {1e3 * spent[folder] / len(ordered):.2f} ms each"
        print(f"{folder.name}: {len(ordered)} searches, {shown}")
    return p95[edited] / p95[fresh]


def _cpu_s(store: EdgeStore) -> float:
    times = psutil.Process(store.pid).cpu_times()
    return float(times.user + times.system)


def _on_disk(folder: Path) -> tuple[int, int]:
    """Return how many bytes and files a folder has."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files), len(files)
