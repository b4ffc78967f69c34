"""What each door takes: chunk sizes, a subject, ready-made chunk files; and that the door itself changes nothing."""

import json
from typing import Any

import httpx
import pytest

from tests.integration.api import HERONS, LANTERN, ingested, problem
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = " ".join(f"Lantern {number} burns whale oil on the pier." for number in range(20))


async def put(client: httpx.AsyncClient, door: str, text: str, **fields: Any) -> httpx.Response:
    match door:
        case "json":
            return await client.post("/rag/ingest", json={"source": "s", "path": "a.md", "text": text, **fields})
        case "form":
            return await client.post("/rag/ingest", data={"source": "s", "path": "a.md", "text": text, **fields})
        case "text":
            return await client.post("/rag/ingest/text", json={"title": "a", "text": text, **fields})
        case "upload" | "knowledge-base":
            path = "/rag/ingest/upload" if door == "upload" else "/knowledge-base"
            data = {"source": "s", "path": "a.md", **fields}
            files = {"file": ("a.md", text.encode(), "text/markdown")}
            return await client.post(path, data=data, files=files, headers={"Prefer": "wait=30"})
        case _:
            params = {"source": "s", "path": "a.md", **fields}
            return await client.post("/rag/ingest/upload", params=params, content=text.encode())


DOORS = ["json", "form", "text", "upload", "knowledge-base", "raw"]


@pytest.mark.feature(109)
@pytest.mark.feature(101)
@pytest.mark.feature(104)
@pytest.mark.parametrize("door", DOORS)
async def test_every_door_takes_chunk_sizes_and_a_subject(client: httpx.AsyncClient, door: str) -> None:
    reply = await put(client, door, LONG, chunkSize="200", chunkOverlap="50", subjectId="7")

    id_ = reply.json()["documentId"]
    items = (await client.get(f"/rag/documents/{id_}/chunks")).json()["items"]
    asked = {"question": "What burns on the pier?", "documentIds": [id_], "subjectId": 7}
    answer = (await client.post("/rag/query", json=asked)).json()
    assert "warnings" not in reply.json()
    assert max(len(item["text"]) for item in items) <= 200
    assert 0 < len(items[1]["metadata"]["contextBefore"]) <= 50
    assert answer["chunksUsed"] > 0


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"chunkSize": "50"}, "chunkSize: chunk size 50 must be in [100, 2000] characters"),
        ({"chunkSize": "200", "chunkOverlap": "150"}, "chunkOverlap: chunk overlap 150 must be in [0, 100] characters"),
        ({"chunkSize": "many"}, "chunkSize: must be a whole number"),
    ],
)
async def test_sizes_that_can_not_be_are_refused(
    client: httpx.AsyncClient, door: str, fields: dict[str, str], sentence: str
) -> None:
    assert problem(await put(client, door, LONG, **fields), 400, "INVALID").startswith(sentence)


@pytest.mark.feature(48)
@pytest.mark.parametrize("second", ["json", "upload", "raw"])
@pytest.mark.parametrize("first", ["json", "upload"])
async def test_the_same_bytes_by_another_door_are_unchanged(client: httpx.AsyncClient, first: str, second: str) -> None:
    created = (await put(client, first, LANTERN, tags="a,b")).json()
    again = (await put(client, second, LANTERN, tags="a,b")).json()

    assert (created["status"], again["status"]) == ("created", "unchanged")


async def test_a_reply_says_which_field_made_an_update(client: httpx.AsyncClient) -> None:
    await put(client, "json", LANTERN, tags="a", title="One")

    described = (await put(client, "upload", LANTERN, tags="b", title="Two")).json()
    sized = (await put(client, "upload", LANTERN, tags="b", title="Two", chunkSize="300")).json()
    other = (await put(client, "json", HERONS, tags="b", title="Two")).json()

    assert (described["status"], described["changed"]) == ("updated", ["title", "tags", "filename", "mediaType"])
    assert (sized["status"], sized["changed"]) == ("updated", ["chunkSize"])
    assert (other["status"], other.get("changed")) == ("updated", None)


@CI_ONLY
async def test_bytes_that_another_door_reads_otherwise_are_read_again(client: httpx.AsyncClient) -> None:
    await client.post("/rag/ingest", json={"source": "s", "path": "a", "text": "<b>Bold</b> words."})
    files = {"file": ("a", b"<b>Bold</b> words.", "text/html")}

    reply = await client.post("/rag/ingest/upload", data={"source": "s", "path": "a"}, files=files)

    assert (reply.json()["status"], reply.json()["changed"]) == ("updated", ["filename", "mediaType"])


@pytest.mark.feature(68)
@pytest.mark.feature(69)
async def test_what_a_chunk_file_lacks_is_named_with_its_file(client: httpx.AsyncClient) -> None:
    good = {"id": "a1", "text": "Hello there.", "embeddingStrings": {"semantic": "greeting"}}
    bad = {"id": "a2", "text": " ", "embeddingStrings": {"semantic": "nothing"}}
    files = [("f", ("lines.json", json.dumps([good, bad]).encode())), ("f", ("other.md", b"# Other"))]

    alone = await client.post("/rag/ingest/upload", files=files[:1])
    both = await client.post("/rag/ingest/upload", files=files)

    skipped = [{"index": 1, "error": "text is empty", "id": "a2", "file": "lines.json"}]
    assert (alone.json()["status"], alone.json()["skipped"]) == ("created", skipped)
    assert [item.get("skipped") for item in both.json()["items"]] == [skipped, None]


@pytest.mark.feature(39)
async def test_a_chunk_of_several_languages_is_shown_in_the_one_asked_for(client: httpx.AsyncClient) -> None:
    line = {"languageVariants": {"en": {"text": "Good evening."}, "de": {"text": "Guten Abend."}}}
    sent = await client.post("/rag/ingest", json={"source": "s", "path": "lines", "chunks": [line]})
    assert sent.json()["status"] == "created"

    async def shown(**asked: str) -> list[str]:
        reply = await client.post("/rag/search", json={"query": "a greeting in the evening", **asked})
        return [hit["text"] for hit in reply.json()["results"]]

    assert await shown(language="de") == ["Guten Abend."]
    assert await shown() == await shown(language="en") == await shown(language="fr") == ["Good evening."]


@pytest.mark.feature(110)
async def test_each_chunk_shows_its_quality_measure_by_measure(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, LANTERN)

    [chunk] = (await client.get(f"/rag/documents/{id_}/chunks")).json()["items"]

    quality, score = chunk["quality"], chunk["metadata"]["semanticScore"]
    assert quality.keys() == {"diversity", "density", "completeness"}
    assert all(0 <= each <= 1 for each in quality.values())
    weighed = 0.3 * quality["diversity"] + 0.4 * quality["density"] + 0.3 * quality["completeness"]
    assert weighed == pytest.approx(score, abs=0.002)


@pytest.mark.feature(204)
async def test_who_prefers_a_flag_gets_the_error_body_of_nextstep(client: httpx.AsyncClient) -> None:
    flagged = await client.post("/rag/ingest", json={}, headers={"Prefer": "errors=flag"})
    plain = await client.post("/rag/ingest", json={})

    assert flagged.json().items() >= {"error": True, "message": "source: is required", "code": "INVALID"}.items()
    assert plain.json()["error"] == "source: is required"


@pytest.mark.feature(53)
@pytest.mark.feature(55)
async def test_the_knowledge_base_lists_and_shows_its_documents(client: httpx.AsyncClient) -> None:
    files = {"file": ("lantern.md", LANTERN.encode(), "text/markdown")}
    sent = await client.post("/knowledge-base", files=files, data={"title": "Lantern"}, headers={"Prefer": "wait=30"})
    broken = await client.post("/knowledge-base", files={"file": ("a.pdf", b"%PDF-1.4")}, headers={"Prefer": "wait=30"})

    listed = (await client.get("/api/knowledge-base")).json()
    shown = (await client.get(f"/knowledge-base/{sent.json()['id']}")).json()
    failed = (await client.get(f"/knowledge-base/{broken.json()['details']['documentId']}")).json()

    assert [item["status"] for item in listed["items"]] == ["failed", "completed"]
    assert shown == sent.json()
    assert (failed["status"], failed["processingStatus"]) == ("failed", {"progress": 100})
    assert "a.pdf" in failed["error"]
