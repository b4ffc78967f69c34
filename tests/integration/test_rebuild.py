"""A lost index is made again from the log, by the stages' own work: what answered answers, and nothing else does."""

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.provisioning import initialise
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DocumentSubmitted, encode, erasure
from shared.errors import Unavailable
from shared.ids import document_id
from shared.settings import ConfigurationError, Settings
from shared.state import ledger
from shared.state.index import Generation, vector_hash
from shared.store import Store
from shared.store.edge import EdgeStore
from tests.e2e.text import paragraph, paragraphs
from tests.folder_copy import copied_folder
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY
from tests.servers.kafka import KafkaServer

WITHIN_S = 120.0
NAMES = ("a.md", "gone.md", "erased.md", "worse.md", "bad.md", "never.md", "same.md")
IDS = {name: document_id("default", "s", name) for name in NAMES}


def a_document(path: str, *texts: str, **fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(**({"source": "s", "path": path, "text": "\n\n".join(texts)} | fields))


async def fill(pipeline: Pipeline) -> None:
    """Leave documents in every state."""
    sent = (
        [a_document("a.md", paragraph(1, 0, 0, of=1)), a_document("gone.md", paragraph(2, 0, 0, of=1))],
        [a_document("a.md", *paragraphs(1, 3), title="A"), DocumentSubmitted(source="s", path="gone.md", deleted=True)],
        [a_document("erased.md", paragraph(3, 0, 0, of=1)), a_document("worse.md", paragraph(4, 0, 0, of=1))],
        [erasure("default", IDS["erased.md"])],
        [a_document("worse.md", content=b"%PDF-1.7 nonsense", text=None, filename="worse.pdf")],
        [a_document("bad.md", " \n "), DocumentSubmitted(source="s", path="never.md", deleted=True)],
        [a_document("same.md", paragraph(5, 0, 0, of=1))],
        [a_document("same.md", paragraph(5, 0, 0, of=1))],
    )
    for documents in sent:
        await asyncio.gather(*(send(pipeline, document) for document in documents))


async def send(pipeline: Pipeline, document: DocumentSubmitted) -> None:
    if document.erases is None:
        await pipeline.send(document)
    else:  # it names no document but by its id
        await pipeline.send(encode(document), of=a_document("erased.md"))


async def state(store: Store, generation: Generation) -> dict[str, Any]:
    """Return what the store holds of each document, but how often and when it was written."""
    found: dict[str, Any] = {}
    for name in (generation.chunks, generation.heads, ledger.COLLECTION):
        for point in (await store.scroll(name, limit=1000, vectors=True)).points:
            payload = json.loads(json.dumps(point.payload))
            for field in ("rev", "writer", "earlier"):
                payload.pop(field, None)
            for field in ("at", "replaced", "changed", "extractedAt", "chunkedAt"):  # the log forgets these
                payload.get("last", {}).pop(field, None)
            dense = None if point.dense is None else vector_hash(point.dense)
            found[f"{name.partition('.')[0]}/{point.id}"] = payload, dense, point.sparse
    return found


async def whole(pipeline: Pipeline) -> None:
    """Return once readiness says that the index is whole."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(Unavailable):
                if not (await pipeline.parts.readiness()).get("index"):
                    return
            await asyncio.sleep(0.05)


def everything(data: Path) -> None:
    shutil.rmtree(data / "store")


def one(kind: str) -> Callable[[Path], None]:
    def lose(data: Path) -> None:
        [folder] = [each for each in (data / "store" / "collections").iterdir() if each.name.startswith(kind)]
        shutil.rmtree(folder)

    return lose


LEDGER = one("ledger")


@pytest.mark.parametrize(
    ("lose", "embedded"),
    [
        (everything, 5),
        pytest.param(LEDGER, 0, marks=CI_ONLY),
        pytest.param(one("heads"), 0, marks=CI_ONLY),
        pytest.param(one("chunks"), 5, marks=CI_ONLY),
    ],
    ids=["everything", "ledger", "heads", "chunks"],
)
@CI_ONLY
async def test_given_documents_in_every_state_when_the_index_is_lost_then_it_is_as_it_was(
    tmp_path: Path, lose: Callable[[Path], None], embedded: int
) -> None:
    async with running(tmp_path) as pipeline:
        await fill(pipeline)
        generation = pipeline.parts.index.generation
        letters = [letter.document_id for letter in await pipeline.dead_letters()]
    store = EdgeStore(tmp_path / "store")
    await store.start()
    before = await state(store, generation)
    await store.close()
    lose(tmp_path)

    async with running(tmp_path) as pipeline:
        await whole(pipeline)
        async with opened(pipeline.settings) as parts:
            after, successor = await state(parts.store, parts.generation), parts.generation
            report = (await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=20)).report
        asked = pipeline.embedded()
        letters_after = [letter.document_id for letter in await pipeline.dead_letters()]
        patched = await pipeline.send(DocumentSubmitted(source="s", path="a.md", patch=True, tags=("x",)))

    assert patched.last.status == "updated"
    assert (successor == generation) == (lose is LEDGER)
    assert (report.verdict, report.first) == ("right", {})
    assert asked == embedded
    assert letters_after == letters
    differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # The log tells that it ended well, not as what; and a deletion's record has no title.
    assert differing <= {f"ledger/{IDS['same.md']}", f"ledger/{IDS['gone.md']}"}


@CI_ONLY
async def test_given_an_emptied_store_when_repaired_beside_a_worker_then_the_new_index_is_right(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as pipeline:
        await fill(pipeline)
        async with opened(pipeline.settings) as parts:
            before = await state(parts.store, parts.generation)
            for name in await parts.store.collections():
                await parts.store.drop_collection(name)
            healed = await command.verify(parts, Quiet(), repair=True, dry_run=False, sample=0, patience_s=WITHIN_S)
        async with opened(pipeline.settings) as parts:
            after = await state(parts.store, parts.generation)

    assert (healed.report.verdict, healed.report.first) == ("right", {})
    assert before.keys() == after.keys()
    assert {key for key, each in after.items() if not key.startswith("ledger/") and each != before[key]} == set()


async def started(settings: Settings) -> None:
    """Do what every start does with log and store."""
    await initialise(settings, dry_run=False)


@CI_ONLY
async def test_given_other_folders_and_older_backups_when_started_then_each_is_refused_by_its_sentence(
    tmp_path: Path,
) -> None:
    ours, other, backup = tmp_path / "ours", tmp_path / "other", tmp_path / "backup"
    async with running(other) as pipeline:
        await pipeline.send(a_document("a.md", paragraph(6, 0, 0, of=1)))
    async with running(ours) as pipeline:
        await pipeline.send(a_document("a.md", paragraph(7, 0, 0, of=1)))
    copied_folder(ours, backup)
    async with running(ours) as pipeline:
        await pipeline.send(a_document("b.md", paragraph(8, 0, 0, of=1)))

    async def refused(log: Path | None, store: Path | None) -> str:
        folder = tmp_path / "mixed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if store is not None:
            copied_folder(store / "store", folder / "store")
        if log is not None:
            for part in ("log.sqlite", "log.sqlite-wal"):
                with suppress(FileNotFoundError):
                    shutil.copy(log / part, folder)
        with pytest.raises(ConfigurationError) as told:
            await started(Settings(data=folder))
        return str(told.value)

    assert "belongs to the log" in await refused(ours, other)
    assert "belongs to the log" in await refused(other, ours)
    assert "the log is empty" in await refused(None, ours)
    assert "is an older backup: its checkpoint" in await refused(ours, backup)
    assert "the log is an older backup: documents.extracted/" in await refused(backup, ours)


@CI_ONLY
async def test_given_kafka_and_other_stores_or_older_backups_when_started_then_each_is_refused_by_its_sentence(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    log, data, other, node = f"kafka://{kafka.address}", tmp_path / "data", tmp_path / "other", tmp_path / "kafka/data"
    await started(Settings(data=other))
    async with running(data, log=log) as pipeline:
        await pipeline.send(a_document("a.md", paragraph(7, 0, 0, of=1)))
    await asyncio.to_thread(kafka.stop)
    copied_folder(data / "store", tmp_path / "older store")
    copied_folder(node, tmp_path / "older log")
    await asyncio.to_thread(kafka.start)
    async with running(data, log=log) as pipeline:
        await pipeline.send(a_document("b.md", paragraph(8, 0, 0, of=1)))
    copied_folder(data / "store", tmp_path / "store")

    def other_log(backup: Path | None) -> None:
        kafka.stop()
        shutil.rmtree(node)
        if backup is not None:
            copied_folder(backup, node)
        kafka.start()

    async def refused(store: Path) -> str:
        shutil.rmtree(data / "store")
        copied_folder(store, data / "store")
        with pytest.raises(ConfigurationError) as told:
            await started(Settings(data=data, log=log))
        return str(told.value)

    assert "belongs to the log" in await refused(other / "store")
    assert "is an older backup: its checkpoint" in await refused(tmp_path / "older store")
    await asyncio.to_thread(other_log, tmp_path / "older log")
    assert "the log is an older backup: documents.extracted/" in await refused(tmp_path / "store")
    await asyncio.to_thread(other_log, None)
    assert "the log is empty" in await refused(tmp_path / "store")


@CI_ONLY
async def test_given_an_older_backup_that_was_paired_by_hand_when_started_then_it_is_not_ready_before_it_is_verified(
    tmp_path: Path,
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    async with running(data) as pipeline:
        await pipeline.send(a_document("a.md", paragraph(7, 0, 0, of=1)))
    copied_folder(data / "store", backup)
    async with running(data) as pipeline:
        await pipeline.send(a_document("b.md", paragraph(8, 0, 0, of=1)))
    shutil.rmtree(data / "store")
    copied_folder(backup, data / "store")

    await initialise(Settings(data=data), dry_run=False, pair=True)
    async with running(data) as pipeline:
        red = (await pipeline.parts.readiness())["index"]
        async with opened(pipeline.settings) as parts:
            mended = await command.verify(parts, Quiet(), repair=True, dry_run=False, sample=0, patience_s=20)
        texts = await pipeline.texts(document_id("default", "s", "b.md"))
        green = (await pipeline.parts.readiness())["index"]

    assert red is not None
    assert "paired by hand" in red
    assert (mended.report.verdict, len(texts), green) == ("right", 1, None)
