"""A name is one name however it is spelled: é as one character (NFC), or as two (NFD), as macOS writes it."""

import unicodedata

import httpx
import pytest

from tests.integration.api import problem

pytestmark = pytest.mark.asyncio(loop_scope="session")

NFC = "Übersicht é/Straße 가.md"
NFD = unicodedata.normalize("NFD", NFC)
TEXT = "The lantern is lit at six."


async def test_both_spellings_of_a_name_are_one_document_at_every_door(client: httpx.AsyncClient) -> None:
    body = {"source": NFC, "path": NFC, "text": TEXT, "title": NFC, "tags": [NFC]}
    first = (await client.post("/rag/ingest", json=body)).json()

    as_json = await client.post("/rag/ingest", json={**body, "source": NFD, "path": NFD, "title": NFD, "tags": [NFD]})
    form = {"source": NFD, "path": NFD, "title": NFD, "tags": NFD}
    as_form = await client.post("/rag/ingest/upload", data=form, files={"f": (NFD, TEXT, "text/markdown")})
    in_batch = await client.post("/rag/ingest/batch", json=[{"source": NFD, "path": NFD, "text": TEXT}])
    found = [
        await client.get("/rag/documents", params={"source": NFD, "path": NFD}),
        await client.get("/rag/documents", params={"source": NFD, "pathPrefix": NFD[:3]}),
        await client.get("/rag/documents", params={"q": NFD}),
    ]
    hits = await client.post("/rag/search", json={"query": TEXT, "filters": {"source": NFD, "path": {"prefix": NFD}}})
    gone = await client.delete("/rag/documents", params={"source": NFD, "path": NFD})

    ids = [each.json()["documentId"] for each in (as_json, as_form)]
    assert ids == [first["documentId"]] * 2
    assert gone.json()["items"][0]["documentId"] == first["documentId"]
    assert as_json.json()["status"] == "unchanged"
    assert in_batch.json()["items"][0]["documentId"] == first["documentId"]
    for reply in found:
        assert [(each["source"], each["path"]) for each in reply.json()["items"]] == [(NFC, NFC)]
    assert {each["metadata"]["path"] for each in hits.json()["results"]} == {NFC}


async def test_files_that_become_one_document_are_refused_and_named(client: httpx.AsyncClient) -> None:
    files = [("f", (name, text, "text/plain")) for name, text in ((NFC, "one"), (NFD, "two"))]

    reply = await client.post("/rag/ingest/upload", files=files)

    assert NFC in problem(reply, 400)
    assert (await client.get("/rag/documents")).json()["items"] == []
