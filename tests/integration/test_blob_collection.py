"""Blobs without an owner go after a day; whatever can still be read, replayed or redriven finds its blob."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from services.embed_worker.blob_collector import BlobCollector, names_in
from services.query_api.ops.redrive import DeadLetterService
from shared.contracts import BlobRef, DocumentSubmitted
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log.open_letters import LetterFilter
from shared.log.sqlite import SqliteLog
from shared.state.ledger import Entry
from shared.store.edge import EdgeStore
from shared.store.open import open_store
from shared.topics import DAY, EXTRACTED, SUBMITTED, Topic, chunks_topic
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY

TENANT = "default"
HANG_S = 30.0
A = document_id(TENANT, "s", "a.md")


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    async with running(tmp_path, partitions=2, compaction_lag=0) as pipeline:
        yield pipeline


@pytest.fixture
async def collector(pipeline: Pipeline) -> AsyncIterator[BlobCollector]:
    store = open_store(pipeline.settings, attach=True)
    assert isinstance(store, EdgeStore)
    await store.start()
    parts = pipeline.parts
    registry = CollectorRegistry()
    yield BlobCollector(log=parts.log, store=store, ledger=parts.ledger, blobs=parts.blobs, registry=registry)
    await store.close()


async def stored(pipeline: Pipeline) -> set[str]:
    return {blob.sha256 async for some in pipeline.parts.blobs.stored() for blob in some}


async def missing(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return what records that a reader can still be given name, and the blob store hasn't."""
    there = await stored(pipeline)
    topics = SUBMITTED, EXTRACTED, chunks_topic(pipeline.parts.index.generation.id)
    records = [record for topic in topics for record in await pipeline.records(topic)]
    return [name for record in records for name in names_in(record) if name[1] not in there]


async def retention_passes(pipeline: Pipeline) -> None:
    """Take from the log what has been read, and what was removed from the truth."""
    log = pipeline.parts.log
    assert isinstance(log, SqliteLog)
    short = [SUBMITTED, chunks_topic(pipeline.parts.index.generation.id)]
    await log.ensure_topics([Topic(name=name, partitions=2, retention_ms=0) for name in short])
    async with asyncio.timeout(HANG_S):
        await log.keep_up()  # notes where the topics end
        while any([await pipeline.records(name) for name in short]):
            await asyncio.sleep(0.02)  # the stages commit a moment after a document has ended
            await log.keep_up()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@CI_ONLY
async def test_given_edits_when_no_record_names_the_old_texts_any_more_then_they_go_a_day_later(
    pipeline: Pipeline, collector: BlobCollector
) -> None:
    texts = [f"The text of edit {number}." for number in range(4)]
    for text in texts:
        await pipeline.send(DocumentSubmitted(source="s", path="a.md", text=text))
    for now in (0, 2 * DAY):
        assert (await collector.collect(now)).removed == 0, "chunk records name them"

    await retention_passes(pipeline)
    looks = [await collector.collect(now) for now in (3 * DAY, 4 * DAY - 1, 4 * DAY, 5 * DAY)]

    assert [look.removed for look in looks] == [0, 0, 3, 0]
    assert looks[0].unowned_bytes == sum(len(text) for text in texts[:3])
    assert looks[-1] == (len(texts[3]), 0, 0)
    assert await stored(pipeline) == {sha256(texts[3])}
    assert await missing(pipeline) == []
    assert await pipeline.texts(A) == [texts[3]]


@CI_ONLY
async def test_while_a_backup_is_made_no_blob_goes(pipeline: Pipeline, collector: BlobCollector) -> None:
    for text in ("The first text.", "The second text."):
        await pipeline.send(DocumentSubmitted(source="s", path="a.md", text=text))
    await retention_passes(pipeline)
    assert (await collector.collect(0)).removed == 0
    log = pipeline.parts.log
    assert isinstance(log, SqliteLog)

    async with log.copying(HANG_S):
        with pytest.raises(Unavailable, match="a backup of"):
            await collector.collect(2 * DAY)
        assert len(await stored(pipeline)) == 2

    assert (await collector.collect(2 * DAY)).removed == 1


@CI_ONLY
async def test_given_prepared_chunks_when_the_log_has_forgotten_their_record_then_metadata_can_still_change(
    pipeline: Pipeline, collector: BlobCollector
) -> None:
    chunks = ({"text": "One boat."}, {"text": "Two boats."})
    await pipeline.send(DocumentSubmitted(source="s", path="a.md", chunks=chunks))
    await retention_passes(pipeline)
    for now in (0, 2 * DAY):
        assert (await collector.collect(now)).removed == 0

    changed = DocumentSubmitted(source="s", path="a.md", patch=True, tags=("x",), keep=("title",))
    entry = await pipeline.send(changed)

    assert (entry.last.status, entry.last.error) == ("updated", None)
    assert await pipeline.texts(A) == ["One boat.", "Two boats."]


@pytest.mark.parametrize(
    ("description", "blobs"),
    [pytest.param(None, 1, id="inline"), pytest.param("x" * 300_000, 2, id="as-a-blob", marks=CI_ONLY)],
)
@CI_ONLY
async def test_given_an_open_letter_when_its_record_is_gone_then_the_blob_named_inside_it_stays_until_it_is_dropped(
    pipeline: Pipeline, collector: BlobCollector, description: str | None, blobs: int
) -> None:
    body = b"%PDF-1.7 nonsense" + bytes(300_000)
    name = document_id(TENANT, "s", "a.pdf")
    ref = await pipeline.parts.blobs.put(TENANT, name, body)
    record = DocumentSubmitted(source="s", path="a.pdf", filename="a.pdf", blob=ref, description=description)
    await pipeline.send(record)
    assert len(await stored(pipeline)) == blobs  # a letter keeps a large record as a blob
    await retention_passes(pipeline)
    for now in (0, 30 * DAY):
        assert (await collector.collect(now)).removed == 0

    parts = pipeline.parts
    letters = DeadLetterService(parts, parts.publish)
    found = (await letters.open.oldest(LetterFilter(tenant=TENANT), limit=10)).letters
    assert [each.outcome for each in await letters.redrive(found, dry_run=True)] == ["redriven"]
    assert await parts.blobs.get(TENANT, name, ref) == body
    await letters.drop(found)

    assert [(await collector.collect(now)).removed for now in (31 * DAY, 32 * DAY)] == [0, blobs]
    assert await stored(pipeline) == set()


@CI_ONLY
async def test_given_a_marked_blob_when_it_is_put_again_then_it_stays_for_another_day(
    pipeline: Pipeline, collector: BlobCollector
) -> None:
    await pipeline.parts.blobs.put(TENANT, A, b"a body that came to no record")
    assert (await collector.collect(0)).unowned_bytes == 29

    await pipeline.parts.blobs.put(TENANT, A, b"a body that came to no record")

    assert [(await collector.collect(now)).removed for now in (DAY, 2 * DAY - 1, 2 * DAY)] == [0, 0, 1]


@CI_ONLY
async def test_given_a_document_under_way_when_nothing_names_its_blob_yet_then_it_stays(
    pipeline: Pipeline, collector: BlobCollector
) -> None:
    ended = await pipeline.send(DocumentSubmitted(source="s", path="a.md", text="The first text."))
    await pipeline.parts.blobs.put(TENANT, A, b"extracted, and not yet published")

    def going(entry: Entry | None) -> Entry | None:
        assert entry is not None
        return msgspec.structs.replace(entry, last=msgspec.structs.replace(entry.last, status="accepted"))

    await pipeline.parts.ledger.update(A, going)
    for now in (0, 2 * DAY):
        assert await collector.collect(now) == (15 + 32, 0, 0)

    await pipeline.parts.ledger.update(A, lambda entry: entry and msgspec.structs.replace(entry, last=ended.last))

    assert [(await collector.collect(now)).removed for now in (3 * DAY, 4 * DAY)] == [0, 1]


@CI_ONLY
async def test_a_look_is_due_once_a_day_whatever_the_clock_did(pipeline: Pipeline, collector: BlobCollector) -> None:
    now = 1_700_000_000_000
    collector.clock = lambda: now
    assert await collector.collect_daily() is not None
    assert await collector.collect_daily() is None

    now += 365 * DAY
    assert await collector.collect_daily() is not None
    now -= 365 * DAY

    assert await collector.collect_daily() is not None
    assert await pipeline.parts.blobs.put(TENANT, A, b"") == BlobRef(sha256=sha256(""), size=0)
