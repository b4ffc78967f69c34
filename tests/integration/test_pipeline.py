"""The stages together in one process, on the standalone adapters, fed through the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from services.standalone.serve import start
from shared.blobs import collect
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from shared.settings import Settings
from shared.topics import EXTRACTED, SUBMITTED
from tests.e2e.text import paragraph, paragraphs
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    async with running(tmp_path / "data") as pipeline:
        yield pipeline


def a_document(text: str | None = "A lantern on the pier.", **fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(**({"source": "s", "path": "a.md", "text": text} | fields))


NAME = document_id("default", "s", "a.md")


async def test_a_document_lives_through_all_its_states(pipeline: Pipeline) -> None:
    texts = paragraphs(1, 4)
    steps = []
    for text in (texts, texts, [texts[0], paragraph(1, 1, 1, of=4), *texts[2:]], texts[:2]):
        before = pipeline.embedded()
        entry = await pipeline.send(a_document("\n\n".join(text)))
        steps.append((entry.last.status, pipeline.embedded() - before, await pipeline.points(NAME)))
        assert await pipeline.texts(NAME) == text
    # The fourth brings back a text of the first version, whose point is gone: it is embedded again.
    assert steps == [("created", 4, 4), ("unchanged", 0, 4), ("updated", 1, 4), ("updated", 1, 2)]

    gone = await pipeline.send(a_document(deleted=True, text=None))
    again = await pipeline.send(a_document("\n\n".join(texts[:1])))

    assert gone.last.status == "deleted"
    assert again.last.status == "created"
    assert await pipeline.texts(NAME) == texts[:1]


@CI_ONLY
async def test_new_tags_cost_no_embedding_and_a_new_title_embeds_what_is_below_it(pipeline: Pipeline) -> None:
    await pipeline.send(a_document(tags=("old",)))
    costs, statuses = list[float](), set[str]()
    for title in (None, "A title", "A title"):
        before = pipeline.embedded()
        metadata = {"colour": "red", "tenant": "x", "n": len(costs)}
        entry = await pipeline.send(a_document(tags=("new",), title=title, metadata=metadata))
        statuses.add(entry.last.status)
        costs.append(pipeline.embedded() - before)

    head = await pipeline.parts.index.head(NAME)
    assert (statuses, costs) == ({"updated"}, [0, 1, 0])
    assert head is not None
    [payload] = await pipeline.parts.index.chunks_page(NAME, head.version, start=0, limit=10)
    metadata = payload["metadata"]
    assert (metadata["tags"], metadata["title"], metadata["colour"]) == (["new"], "A title", "red")
    assert metadata["tenant"] == "default"


@CI_ONLY
@pytest.mark.feature(117)
async def test_equal_text_is_embedded_once_a_tenant(pipeline: Pipeline) -> None:
    await asyncio.gather(*(pipeline.send(a_document(path=f"{n}.md")) for n in range(5)))
    once = pipeline.embedded()
    await pipeline.send(a_document(tenant="other"))

    assert (once, pipeline.embedded()) == (1, 2)


@CI_ONLY
async def test_what_cannot_be_read_fails_with_the_reason_and_comes_back_when_it_can(pipeline: Pipeline) -> None:
    failed = await pipeline.send(a_document(" \n "))
    [letter] = await pipeline.dead_letters()
    mended = await pipeline.send(a_document("Now there is something."))

    assert (failed.last.status, failed.last.code) == ("failed", "empty")
    assert failed.last.error is not None
    assert "a.md" in failed.last.error
    assert (letter.stage, letter.code, letter.document_id) == ("ingest", "empty", NAME)
    assert mended.last.status == "created"


@CI_ONLY
async def test_a_failed_edit_leaves_the_last_good_version_answering(pipeline: Pipeline) -> None:
    await pipeline.send(a_document("First."))

    failed = await pipeline.send(a_document(text=None, content=b"%PDF-1.7 nonsense", filename="a.pdf"))

    assert failed.last.status == "failed"
    assert await pipeline.texts(NAME) == ["First."]


@CI_ONLY
async def test_an_undecodable_record_is_set_aside_and_its_neighbours_go_on(pipeline: Pipeline) -> None:
    await pipeline.parts.publish(SUBMITTED, b"{not json", key=NAME.encode())
    entry = await pipeline.send(a_document())
    [letter] = await pipeline.dead_letters()

    assert entry.last.status == "created"
    assert (letter.code, letter.value) == ("undecodable", b"{not json")


@CI_ONLY
async def test_foreign_records_find_their_document(pipeline: Pipeline) -> None:
    body = b'{"source": "s", "path": "a.md", "text": "From n8n.", "unknown": {"field": 1}}'
    created = await pipeline.send(body, key=b"some/other/key", of=a_document())
    gone = await pipeline.send(None, key=b"whatever", headers={"source": "s", "path": "a.md"}, of=a_document())

    assert created.last.status == "created"
    assert gone.last.status == "deleted"
    assert await pipeline.texts(NAME) == []


@CI_ONLY
async def test_points_that_vanished_come_back_when_the_document_comes_again(pipeline: Pipeline) -> None:
    texts = paragraphs(1, 3)
    entry = await pipeline.send(a_document("\n\n".join(texts)))
    await pipeline.parts.index.delete_version(NAME, entry.accepted.version)

    healed = await pipeline.send(a_document("\n\n".join(texts)))

    assert healed.last.status == "updated"
    assert await pipeline.texts(NAME) == texts


@CI_ONLY
async def test_the_truth_keeps_only_the_newest_version(pipeline: Pipeline) -> None:
    for n in range(3):
        last = await pipeline.send(a_document(f"Version {n}."))
    records = await pipeline.records(EXTRACTED)

    newest = {record.key: record.value for record in records}
    living = [key for key, value in newest.items() if value is not None]
    assert living == [f"{NAME}/{last.accepted.version}".encode()]
    assert len({record.partition for record in records}) == 1


@CI_ONLY
async def test_a_large_body_travels_by_reference(pipeline: Pipeline) -> None:
    name = document_id("default", "s", "a.md")
    text = "\n\n".join(paragraphs(1, 3)) + "\n\n" + "padding " * 60_000
    ref = await pipeline.parts.blobs.put("default", name, text.encode())

    entry = await pipeline.send(a_document(text=None, blob=ref, media_type="text/plain"))

    assert entry.last.status == "created"
    assert len(await pipeline.texts(name)) > 500
    assert max(len(record.value or b"") for record in await pipeline.records(EXTRACTED)) < 256 * 1024


@CI_ONLY
async def test_an_overlap_is_shown_and_not_embedded(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", samples="off", chat="extractive:", chunk_overlap=100)
    settings.data.mkdir()
    async with AsyncExitStack() as stack:
        pipeline = Pipeline(await start(settings, stack), settings)
        entry = await pipeline.send(a_document("\n\n".join(paragraphs(1, 2))))
        first, second = await pipeline.parts.index.chunks_page(NAME, entry.accepted.version, start=0, limit=10)

    assert "contextBefore" not in first["metadata"]
    context = second["metadata"]["contextBefore"].strip()
    assert 0 < len(context) <= 100
    assert first["text"].endswith(context)


@CI_ONLY
async def test_a_missing_body_is_a_failure_not_an_outage(pipeline: Pipeline) -> None:
    name = document_id("default", "s", "a.md")
    ref = await pipeline.parts.blobs.put("default", name, b"soon gone")
    await collect(pipeline.parts.blobs, ("default", name), frozenset(), -60.0)

    entry = await pipeline.send(a_document(text=None, blob=ref))

    assert (entry.last.status, entry.last.code) == ("failed", "blob_missing")
