"""Every field that a chunk of an indexed document shows, and where it comes from."""

from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.integration.api import HERONS, LANTERN, ingested
from tests.unit.services.ingest_worker.files import a_pdf

pytestmark = pytest.mark.asyncio(loop_scope="session")

GUIDE = "# The pier\n\n" + " ".join(
    f"Lantern {number} burns whale oil and is lit by its keeper at dusk." for number in range(40)
)


async def chunks_of(client: httpx.AsyncClient, document: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(f"/rag/documents/{document}/chunks")).json()["items"]
    return items


@pytest.mark.feature(1, 2, 6, 7, 8, 10, 12, 13, 14, 15, 16, 19, 20, 21, 22, 24, 25, 27, 28, 29, 31)
async def test_a_chunk_shows_its_document_its_place_and_its_measures(client: httpx.AsyncClient) -> None:
    form = {"source": "docs", "path": "pier/guide.md", "title": "Guide", "tags": ["a", "b"], "metadata": '{"floor": 2}'}
    files = {"documentFile": ("guide.md", GUIDE.encode(), "text/markdown")}

    document = (await client.post("/rag/ingest/upload", data=form, files=files)).json()["documentId"]
    chunks = await chunks_of(client, document)

    assert len(chunks) > 2
    assert len({each["metadata"]["chunkId"] for each in chunks}) == len(chunks)
    for number, chunk in enumerate(chunks):
        metadata = chunk["metadata"]
        assert chunk["text"].strip()
        assert metadata["documentId"] == document
        assert (metadata["source"], metadata["path"], metadata["title"]) == ("docs", "pier/guide.md", "Guide")
        assert (metadata["tags"], metadata["floor"]) == (["a", "b"], 2)
        assert (metadata["originalFilename"], metadata["sourceType"], metadata["documentType"]) == (
            "guide.md",
            "md",
            "md",
        )
        assert (metadata["chunkOrder"], metadata["totalChunks"]) == (number, len(chunks))
        assert metadata["sectionTitle"] == "The pier"
        assert metadata["charCount"] == len(chunk["text"])
        assert 0 < metadata["tokenCount"] < metadata["charCount"]
        assert metadata["chunkType"] in ("paragraph", "section")
        assert 0 <= metadata["semanticScore"] <= 1


@pytest.mark.feature(17, 18)
async def test_a_chunk_says_when_its_document_came_and_last_changed(client: httpx.AsyncClient) -> None:
    document = await ingested(client, LANTERN)
    [first] = await chunks_of(client, document)
    await ingested(client, HERONS)
    [second] = await chunks_of(client, document)

    created, updated = (datetime.fromisoformat(second["metadata"][name]) for name in ("createdAt", "updatedAt"))
    assert first["metadata"]["createdAt"] == first["metadata"]["updatedAt"] == second["metadata"]["createdAt"]
    assert created < updated


@pytest.mark.feature(9)
async def test_a_chunk_of_a_pdf_names_the_page_on_which_it_starts(client: httpx.AsyncClient) -> None:
    pages = [" ".join(f"Page {page} tells of lantern {number}." for number in range(30)) for page in (1, 2)]
    files = {"file": ("guide.pdf", a_pdf(*pages), "application/pdf")}

    document = (await client.post("/rag/ingest/upload", files=files)).json()["documentId"]
    chunks = await chunks_of(client, document)

    assert {each["metadata"]["pageNumber"] for each in chunks} == {1, 2}
    assert all(f"Page {each['metadata']['pageNumber']} tells" in each["text"] for each in chunks)


@pytest.mark.feature(11)
async def test_the_hash_of_the_original_and_the_document_group_the_chunks_of_one_file(
    client: httpx.AsyncClient,
) -> None:
    document = await ingested(client, GUIDE)

    chunks = await chunks_of(client, document)
    shown = (await client.get(f"/rag/documents/{document}")).json()

    assert {each["metadata"]["documentId"] for each in chunks} == {document}
    assert len(shown["sha256"]) == 64


async def test_a_chunk_within_a_table_shows_its_header_wherever_it_is_read(client: httpx.AsyncClient) -> None:
    header = "| Leuchtfeuer | Waerter |\n| --- | --- |"
    rows = "\n".join(
        f"| feuer-{number:02} | Schicht {chr(97 + number % 7)} auf dem Turm am Kai |" for number in range(60)
    )
    files = {"documentFile": ("feuer.md", f"{header}\n{rows}".encode(), "text/markdown")}
    form = {"source": "feuer", "metadata": '{"tableHeader": "| forged |"}'}

    document = (await client.post("/rag/ingest/upload", data=form, files=files)).json()["documentId"]
    first, *rest = await chunks_of(client, document)
    asked = {"query": "Welche Waerter hat feuer-33?", "filters": {"source": "feuer"}, "topK": 3}
    hits = (await client.post("/rag/search", json=asked)).json()["results"]
    context = (await client.post("/rag/context", json=asked)).json()["context"]

    assert first["metadata"]["tableHeader"] is None
    assert {chunk["metadata"]["tableHeader"] for chunk in rest} == {header}
    assert all(chunk["text"].startswith("| feuer-") for chunk in rest)
    assert "feuer-33" in hits[0]["text"]
    assert hits[0]["metadata"]["tableHeader"] == header
    assert f"{header}\n{hits[0]['text'][:20]}" in context
