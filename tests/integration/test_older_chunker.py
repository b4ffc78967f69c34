"""An index that an older chunker began: it answers, takes more, is right as it is, and can be cut anew."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.embed_worker.points import chunk_points, head_of, sparse_text
from services.ingest_worker.chunk import chunks
from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from shared.contracts import DocumentExtracted, DocumentSubmitted, decode, encode, truth_key
from shared.ids import document_id
from shared.log import Log
from shared.runtime.resources import wanted_generation
from shared.settings import Settings
from shared.state.generations import first_registry, serving
from shared.state.index import of_document
from shared.store import Filter, Match, Point
from shared.store.edge import EdgeStore
from shared.topics import EXTRACTED, readers
from tests.builders import default_embedder
from tests.contract.logs import until
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY

OLD, NEW = (document_id("default", "s", path) for path in ("old.md", "new.md"))
TEXT = "# Harbour\n\n" + "\n\n".join(paragraphs(1, 3))


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    """Give an index of chunker 0 that holds one document as that cut it, and one that came later."""
    settings, store, model = Settings(data=tmp_path), EdgeStore(tmp_path / "store"), default_embedder()
    await store.start()
    await model.start()
    older = await serving(store, first_registry(wanted_generation(settings, "0", model.model)))
    await store.close()
    await model.close()
    async with running(tmp_path) as pipeline:
        assert pipeline.parts.index.generation == older
        for path in ("old.md", "new.md"):
            entry = await pipeline.send(DocumentSubmitted(source="s", path=path, text=TEXT))
            assert entry.last.status == "created"
        await cut_as_once(pipeline)
        yield pipeline


async def cut_as_once(pipeline: Pipeline) -> None:
    """Write a document's points as a chunker with other borders has, that knew no score, and no section to search."""
    parts, index = pipeline.parts, pipeline.parts.index
    document = (await _truth(pipeline)).document
    made = tuple(
        msgspec.structs.replace(chunk, semantic_score=None)
        for chunk in chunks(TEXT, tokens=parts.embedder.tokens, size=300)
    )
    bare = [sparse_text(document, msgspec.structs.replace(chunk, section=None)) for chunk in made]
    dense = await parts.embedder.embed_documents([chunk.text for chunk in made])
    sparse, precision = await parts.bm25.documents(bare), index.generation.vectors
    points = chunk_points(document, made, slice(0, len(made)), dense, sparse, precision=precision)
    for point in points:
        del point.payload["metadata"]["semanticScore"]
    head = msgspec.to_builtins(head_of(document, len(made)))
    async with opened(pipeline.settings) as seen:
        await seen.store.delete(index.generation.chunks, of_document(OLD))
        await seen.store.upsert(index.generation.chunks, points)
        await seen.store.upsert(index.generation.heads, [Point(id=OLD, payload=head)])


async def _truth(pipeline: Pipeline) -> DocumentExtracted:
    found = (decode(record.value, DocumentExtracted) for record in await pipeline.records(EXTRACTED))
    return next(event for event in found if event.document.document_id == OLD)


async def _verified(pipeline: Pipeline, **how: Any) -> VerifyOutcome:
    asked = {"repair": False, "dry_run": False, "sample": 0, "patience_s": 30} | how
    async with opened(pipeline.settings) as parts:
        return await command.verify(parts, Quiet(), **asked)


@CI_ONLY
async def test_it_is_right_as_it_was_cut_whatever_comes_and_is_cut_anew_when_asked_for(pipeline: Pipeline) -> None:
    old, new = await pipeline.texts(OLD), await pipeline.texts(NEW)

    outcome = await _verified(pipeline, sample=None)

    assert len(old) > len(new)
    assert (outcome.report.verdict, outcome.report.first, outcome.exit_code) == ("right", {}, 0)
    assert (outcome.report.older_chunker, outcome.report.embedded) == (1, len(old) + len(new))
    assert "1 documents were split by an older chunker" in "\n".join(command.lines(outcome))

    await _sent_again(pipeline)

    assert await pipeline.texts(OLD) == old
    assert (await _verified(pipeline)).report.older_chunker == 1

    planned = await _verified(pipeline, repair=True, renew=True, dry_run=True)
    renewed = await _verified(pipeline, repair=True, renew=True)

    assert (planned.report.wrong, await pipeline.texts(OLD)) == ((OLD,), new)
    assert (renewed.report.verdict, renewed.report.older_chunker) == ("right", 0)


async def _sent_again(pipeline: Pipeline) -> None:
    """Put the document's version through the stages once more, as a replay does."""
    truth, log = await _truth(pipeline), pipeline.parts.log
    key = truth_key(OLD, truth.document.version)
    await pipeline.parts.publish(EXTRACTED, encode(truth), key=key, route=OLD.encode())
    for topic, group in readers(pipeline.parts.index.generation.id).items():
        await until(partial(_done, log, topic, group))


async def _done(log: Log, topic: str, group: str) -> bool:
    done = await log.committed(group, topic)
    return all((done.get(tp) or 0) >= end for tp, end in (await log.end_offsets(topic)).items())


@CI_ONLY
async def test_what_it_lacks_is_seen_and_mended(pipeline: Pipeline) -> None:
    third = Filter(must=(*of_document(OLD).must, Match("metadata.chunkOrder", (2,))))
    async with opened(pipeline.settings) as parts:
        await parts.store.delete(parts.generation.chunks, third)

    wrong = await _verified(pipeline)
    healed = await _verified(pipeline, repair=True)

    assert (wrong.report.verdict, wrong.report.wrong) == ("wrong", (OLD,))
    assert (healed.report.verdict, healed.report.older_chunker) == ("right", 0)
    assert await pipeline.texts(OLD) == await pipeline.texts(NEW)
