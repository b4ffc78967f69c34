"""Ready-made chunks, and sizes that are asked for, through the real stages."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.http.monitoring import Metrics
from services.query_api.search.retrieval import Retriever
from shared.blobs import CLAIM_CHECK_BYTES
from shared.contracts import DocumentExtracted, DocumentSubmitted, Note, decode
from shared.ids import document_id
from shared.inputs.prepared_chunks import body_of
from shared.store import Payload
from shared.topics import EXTRACTED
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY

if TYPE_CHECKING:
    from services.query_api.search.retrieval import Mode

NAME = document_id("default", "s", "lines")
LINES = (
    {"id": "a1", "text": "Hello there.", "embeddingText": "greeting for strangers", "tags": {"phase": 1}},
    {"id": "a2", "text": "See you soon.", "tags": ["late"], "metadata": {"tenant": "victim", "mood": "warm"}},
)


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    async with running(tmp_path / "data") as pipeline:
        yield pipeline


def the_lines(*chunks: Any, **fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(source="s", path="lines", content=body_of(chunks or LINES), **fields)


async def _payloads(pipeline: Pipeline) -> list[Payload]:
    head = await pipeline.parts.index.head(NAME)
    assert head is not None
    return await pipeline.parts.index.chunks_page(NAME, head.version, start=0, limit=1000)


async def _differences(pipeline: Pipeline) -> Any:
    async with opened(pipeline.settings) as parts:
        outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=None, patience_s=20)
    return outcome.report.first


@CI_ONLY
async def test_ready_made_chunks_are_found_as_their_caller_made_them(pipeline: Pipeline) -> None:
    entry = await pipeline.send(the_lines(tags=("lines",), metadata={"mood": "cool", "author": "K"}))

    first, second = await _payloads(pipeline)
    assert (entry.last.status, entry.last.chunk_count) == ("created", 2)
    assert (first["text"], first["embeddingText"]) == ("Hello there.", "greeting for strangers")
    assert {"chunk_id": "a1", "phase": 1, "mood": "cool", "author": "K"}.items() <= first["metadata"].items()
    assert second["metadata"]["tags"] == ["lines", "late"]
    assert (second["metadata"]["tenant"], second["metadata"]["mood"]) == ("default", "warm")
    assert await _differences(pipeline) == {}


@CI_ONLY
@pytest.mark.feature(40)
async def test_a_search_by_what_is_embedded_shows_what_is_displayed(pipeline: Pipeline) -> None:
    await pipeline.send(the_lines())
    parts = pipeline.parts
    retriever = Retriever(parts.index, parts.embedder, parts.bm25, Metrics(CollectorRegistry()))

    modes: tuple[Mode, ...] = ("dense", "sparse")
    for mode in modes:
        found = await retriever.search("default", "a greeting for strangers", mode=mode, top_k=1)
        assert [hit.text for hit in found.hits] == ["Hello there."]


@CI_ONLY
async def test_only_another_embedded_text_costs_an_embedding(pipeline: Pipeline) -> None:
    await pipeline.send(the_lines())
    costs = []
    for first in ({"text": "Hello you."}, {"metadata": {"n": 1}}, {"embeddingText": "farewell"}):
        before = pipeline.embedded()
        entry = await pipeline.send(the_lines({**LINES[0], **first}, LINES[1]))
        costs.append((entry.last.status, pipeline.embedded() - before))
    before = pipeline.embedded()
    again = await pipeline.send(the_lines({**LINES[0], "embeddingText": "farewell"}, LINES[1]))

    assert costs == [("updated", 0), ("updated", 0), ("updated", 1)]
    assert (again.last.status, pipeline.embedded() - before) == ("unchanged", 0)


@CI_ONLY
async def test_a_foreign_producer_sends_chunks_as_they_are_and_hears_of_the_bad_ones(pipeline: Pipeline) -> None:
    value = b'{"source": "s", "path": "lines", "chunks": [{"text": "Hello there."}, {"id": "b", "text": 5}]}'

    entry = await pipeline.send(value, key=b"foreign", of=the_lines())

    assert (entry.last.status, await pipeline.texts(NAME)) == ("created", ["Hello there."])
    [record] = [record for record in await pipeline.records(EXTRACTED) if record.value]
    reading = decode(record.value, DocumentExtracted).document.reading
    assert reading is not None
    message = "chunk 1 (b) was left out: text must be a string, not 5"
    assert (reading.notes, reading.note_count) == ((Note(code="chunk", place="chunk 1 (b)", message=message),), 1)


@CI_ONLY
async def test_a_document_of_many_chunks_travels_by_claim_check(pipeline: Pipeline) -> None:
    texts = paragraphs(1, 120)
    chunks = [
        {"text": text, "embeddingText": "the same", "metadata": {"n": n, "more": "m" * 2000}}
        for n, text in enumerate(texts)
    ]
    assert len(body_of(chunks)) > CLAIM_CHECK_BYTES

    entry = await pipeline.send(the_lines(*chunks))

    assert (entry.last.status, pipeline.embedded()) == ("created", 1)
    assert await pipeline.texts(NAME) == texts
    assert await _differences(pipeline) == {}


@CI_ONLY
async def test_sizes_are_the_versions_own(pipeline: Pipeline) -> None:
    text = "\n\n".join(paragraphs(1, 6))
    steps = []
    small = {"chunk_size": 100, "chunk_overlap": 20}
    every: tuple[dict[str, Any], ...] = ({}, small, small, {})
    for asked in every:
        entry = await pipeline.send(DocumentSubmitted(source="s", path="lines", text=text, **asked))
        payloads = await _payloads(pipeline)
        steps.append((entry.last.status, max(len(payload["text"]) for payload in payloads) <= 100))
        assert ("contextBefore" in payloads[-1]["metadata"]) == bool(asked)
        if len(steps) == 2:
            assert await _differences(pipeline) == {}
    assert steps == [("created", False), ("updated", True), ("unchanged", True), ("updated", False)]

    refused = await pipeline.send(DocumentSubmitted(source="s", path="lines", text=text, chunk_size=99))

    assert (refused.last.status, refused.last.code) == ("failed", "chunk_size")
