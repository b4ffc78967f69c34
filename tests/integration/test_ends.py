"""Every submission is told its own end, whatever is sent under the same name meanwhile. ADR 0006."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.query_api.app import ApiParts
from shared.log import Publish
from tests.e2e.faults import rounds
from tests.integration.api import HERONS, a_client, an_app, problem
from tests.selection import CI_ONLY

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

UPLOAD = "/rag/ingest/upload"
BROKEN = b"%PDF-1.7 nothing"
ASYNC = {"Prefer": "wait=0"}
PATIENT = {"Prefer": "wait=200"}


async def sent(client: httpx.AsyncClient, path: str, content: bytes, **headers: str) -> httpx.Response:
    named = {"X-Filename": path, "Content-Type": "application/octet-stream", **headers}
    return await client.post(UPLOAD, params={"path": path}, content=content, headers=named)


async def own_end(client: httpx.AsyncClient, accepted: httpx.Response) -> dict[str, Any]:
    """Return how the submission of a 202 ended, as a poller sees it."""
    assert accepted.status_code == 202, accepted.text
    while True:
        shown: dict[str, Any] = (await client.get(accepted.headers["location"])).json()
        if shown["status"] != "accepted":
            return shown
        await asyncio.sleep(0)


@CI_ONLY
@pytest.mark.parametrize("patience", [PATIENT, ASYNC], ids=["waiting", "polling"])
async def test_a_good_file_and_a_broken_one_of_its_name_are_each_told_their_own_end(
    client: httpx.AsyncClient, patience: dict[str, str]
) -> None:
    for race in range(rounds(5, 3)):
        path, good = f"race-{race}.txt", f"{HERONS} Year {race}.".encode()
        bodies = [good, BROKEN] if race % 2 else [BROKEN, good]

        replies = await asyncio.gather(*(sent(client, path, body, **patience) for body in bodies))
        if patience is ASYNC:
            ends = [(await own_end(client, reply))["status"] for reply in replies]
        else:
            ends = ["failed" if reply.status_code == 422 else reply.json()["status"] for reply in replies]
        [shown] = [(await client.get(f"/rag/documents/{_id_of(replies)}")).json()]

        told = dict(zip([body is BROKEN for body in bodies], ends, strict=True))
        assert told[True] == "failed"
        assert told[False] == "created"
        assert (shown["state"], shown["chunkCount"]) == ("ready", 1)


def _id_of(replies: list[httpx.Response]) -> str:
    [id_] = {
        reply.json()["details"]["documentId"] if reply.status_code == 422 else reply.json()["documentId"]
        for reply in replies
    }
    return str(id_)


async def test_what_answers_is_told_beside_the_newest_end(client: httpx.AsyncClient) -> None:
    created = (await sent(client, "notes.txt", HERONS.encode())).json()
    ready = (await client.get(f"/rag/documents/{created['documentId']}")).json()
    problem(await sent(client, "notes.txt", BROKEN), 422, "DAMAGED")
    broken = (await client.get(f"/rag/documents/{created['documentId']}")).json()
    await client.delete(f"/rag/documents/{created['documentId']}")
    gone = (await client.get(f"/rag/documents/{created['documentId']}")).json()
    refused = await sent(client, "never.txt", BROKEN)
    never = (await client.get(f"/rag/documents/{refused.json()['details']['documentId']}")).json()

    assert (ready["status"], ready["state"], ready["stateVersion"]) == ("created", "ready", ready["version"])
    assert (broken["status"], broken["state"], broken["stateVersion"]) == ("failed", "ready", ready["version"])
    assert broken["version"] > ready["version"]
    assert (gone["status"], gone["state"], gone["stateVersion"]) == ("deleted", "deleted", gone["version"])
    assert (never["status"], never["state"], never["stateVersion"]) == ("failed", "failed", never["version"])


async def test_the_location_of_a_202_is_of_its_own_submission(client: httpx.AsyncClient) -> None:
    first = await sent(client, "loc.txt", HERONS.encode(), **ASYNC)
    assert (await own_end(client, first))["status"] == "created"
    problem(await sent(client, "loc.txt", BROKEN), 422, "DAMAGED")
    id_ = first.json()["documentId"]

    shown = (await client.get(first.headers["location"])).json()
    told = await client.get(f"/rag/documents/{id_}/events", params={"since": first.json()["submission"]})

    assert first.headers["location"] == f"/rag/documents/{id_}?submission={first.json()['submission']}"
    assert (shown["status"], shown["state"], shown.get("error")) == ("created", "ready", None)
    assert "event: searchable" in told.text
    sentence = problem(await client.get(f"/rag/documents/{id_}?submission=yesterday"), 400)
    assert sentence.startswith("submission:")


async def test_a_submission_that_no_worker_has_come_to_is_accepted(
    parts: ApiParts, unread: Publish, tenants: Any
) -> None:
    async with a_client(an_app(parts, publish=unread), next(tenants)) as client:
        body = {"source": "s", "path": "p", "text": HERONS}
        await client.post("/rag/ingest", json=body, headers=ASYNC)
        later = await client.post("/rag/ingest", json=body, headers=ASYNC)

        shown = (await client.get(later.headers["location"])).json()

    assert (shown["status"], shown["state"], shown["version"]) == ("accepted", "accepted", 0)


# Two of one name in one request


async def test_two_files_of_one_name_are_refused_and_nothing_is_taken(client: httpx.AsyncClient) -> None:
    for number in range(rounds(5, 3)):
        files = [
            ("a", (f"{number}.txt", f"{HERONS} First.".encode())),
            ("b", ("other.txt", HERONS.encode())),
            ("c", (f"{number}.txt", f"{HERONS} Second.".encode())),
        ]
        sentence = problem(await client.post(UPLOAD, files=files), 400, "INVALID")
        assert f"'{number}.txt' (2 times)" in sentence
        assert "other.txt" not in sentence

    assert (await client.get("/rag/documents")).json()["items"] == []


async def test_a_path_for_each_file_tells_files_of_one_name_apart(client: httpx.AsyncClient) -> None:
    files = [("file", ("notes.txt", f"{HERONS} {where}.".encode())) for where in "ab"]

    taken = await client.post(UPLOAD, files=files, data={"path": ["a/notes.txt", "b/notes.txt"]}, headers=PATIENT)
    too_few = await client.post(UPLOAD, files=files, data={"path": ["a/notes.txt"]})
    equal = await client.post(UPLOAD, files=files, data={"path": ["a", "a"]})

    assert [item["status"] for item in taken.json()["items"]] == ["created", "created"]
    listed = (await client.get("/rag/documents")).json()["items"]
    assert sorted(item["path"] for item in listed) == ["a/notes.txt", "b/notes.txt"]
    assert problem(too_few, 400) == "path: 1 were sent for 2 files; send one for each of them, or none"
    assert problem(equal, 400).startswith("path: several files would be one document: 'a' (2 times)")


async def test_an_earlier_item_of_the_same_document_says_which_one_has_taken_its_place(
    client: httpx.AsyncClient,
) -> None:
    texts = ["One.", "Two.", "Three."]
    items = [{"source": "b", "path": "same", "text": f"{HERONS} {text}"} for text in texts]
    items.insert(1, {"source": "b", "path": "other", "text": HERONS})

    for headers in (ASYNC, PATIENT):
        reply = await client.post("/rag/ingest/batch", json=items, headers=headers)
        told = [(item["status"], item.get("supersededBy")) for item in reply.json()["items"]]
        assert told[0] == told[2] == ("superseded", 3)
        assert told[1][1] is told[3][1] is None
        assert "superseded" not in {told[1][0], told[3][0]}


# The same name in two requests


async def test_an_update_says_which_version_it_has_replaced(client: httpx.AsyncClient) -> None:
    first = (await sent(client, "r.txt", HERONS.encode(), **PATIENT)).json()
    before = (await client.get(f"/rag/documents/{first['documentId']}")).json()
    second = (await sent(client, "r.txt", f"{HERONS} Again.".encode(), **PATIENT)).json()
    equal = (await sent(client, "r.txt", f"{HERONS} Again.".encode(), **PATIENT)).json()

    assert "replaced" not in first
    assert second["replaced"] == {"version": before["version"], "updatedAt": before["updatedAt"]}
    assert (equal["status"], "replaced" in equal) == ("unchanged", False)


async def test_of_two_uploads_of_one_name_none_is_lost_without_a_word(client: httpx.AsyncClient) -> None:
    for number in range(rounds(5, 3)):
        path = f"twice-{number}.txt"
        bodies = [f"{HERONS} {number}, {who}.".encode() for who in "AB"]

        replies = await asyncio.gather(*(sent(client, path, body, **PATIENT) for body in bodies))

        told = sorted((reply.json() for reply in replies), key=lambda body: str(body["status"]))
        assert [each["status"] for each in told] == ["created", "updated"]
        assert told[1]["replaced"]["version"] > 0


# What a submission leaves out, and what it may not replace


async def ingested(client: httpx.AsyncClient, path: str, text: str, **fields: Any) -> dict[str, Any]:
    body = {"source": "e", "path": path, "text": text, **fields}
    reply: dict[str, Any] = (await client.post("/rag/ingest", json=body, headers=PATIENT)).json()
    return reply


async def metadata_of(client: httpx.AsyncClient, id_: str) -> dict[str, Any]:
    [chunk] = (await client.get(f"/rag/documents/{id_}/chunks")).json()["items"]
    metadata: dict[str, Any] = chunk["metadata"]
    return metadata


@pytest.mark.parametrize("nothing", [{}, {"tags": None, "metadata": None}, {"tags": [], "metadata": {}, "title": " "}])
async def test_what_a_submission_leaves_out_is_gone_and_named(
    client: httpx.AsyncClient, nothing: dict[str, Any]
) -> None:
    first = await ingested(client, "d", HERONS, title="Herons", tags=["birds"], metadata={"year": 1900})
    bare = await ingested(client, "d", HERONS, **nothing)
    again = await ingested(client, "d", HERONS, **nothing)

    assert "dropped" not in first
    assert (bare["status"], bare["dropped"]) == ("updated", ["title", "tags", "metadata"])
    assert (again["status"], "dropped" in again) == ("unchanged", False)
    metadata = await metadata_of(client, first["documentId"])
    assert (metadata["title"], metadata["tags"], "year" in metadata) == ("d", [], False)  # its path


async def test_what_is_to_be_kept_stays_and_stands_in_the_versions_record(client: httpx.AsyncClient) -> None:
    first = await ingested(client, "k", HERONS, title="Herons", tags=["birds"], metadata={"year": 1900})
    kept = await ingested(client, "k", f"{HERONS} More.", keep="title,tags,metadata", tags=["own"])
    again = await ingested(client, "k", f"{HERONS} More.", keep=["title", "tags", "metadata"])
    whole = await ingested(client, "k", f"{HERONS} More.", title="Herons", tags=["own"], metadata={"year": 1900})

    metadata = await metadata_of(client, first["documentId"])
    assert (kept["status"], "dropped" in kept) == ("updated", False)
    assert again["status"] == whole["status"] == "unchanged"
    assert (metadata["title"], metadata["tags"], metadata["year"]) == ("Herons", ["own"], 1900)


async def test_other_content_is_refused_where_it_may_not_replace(client: httpx.AsyncClient) -> None:
    first = await ingested(client, "c.md", HERONS, onConflict="error")
    equal = await ingested(client, "c.md", HERONS, onConflict="error")
    body = {"source": "e", "path": "c.md", "text": f"{HERONS} Other.", "onConflict": "error"}
    refused = await client.post("/rag/ingest", json=body, headers=PATIENT)
    shown = (await client.get(f"/rag/documents/{first['documentId']}")).json()
    letters = (await client.get("/rag/documents", params={"status": "failed"})).json()["items"]

    assert (first["status"], equal["status"]) == ("created", "unchanged")
    assert "exists with other content" in problem(refused, 409, "CONFLICT")
    assert (shown["state"], shown["status"], shown["code"]) == ("ready", "failed", "CONFLICT")
    assert [each["documentId"] for each in letters] == [first["documentId"]]
    assert (await ingested(client, "c.md", HERONS))["status"] == "unchanged"


@CI_ONLY
async def test_other_content_takes_a_name_of_its_own_and_a_retry_makes_no_second_one(
    client: httpx.AsyncClient,
) -> None:
    first = await ingested(client, "in/n.md", HERONS)
    for asked in ("created", "unchanged"):
        other = await ingested(client, "in/n.md", f"{HERONS} Other.", onConflict="new", tags=["t"])
        assert other["status"] == asked
        assert other["documentId"] != first["documentId"]
        assert other["path"].startswith("in/n-")
        assert other["path"].endswith(".md")
    listed = (await client.get("/rag/documents")).json()["items"]
    large = await ingested(client, "in/n.md", "Large. " * 40_000, onConflict="new")

    assert {item["path"] for item in listed} == {"in/n.md", other["path"]}
    assert (await metadata_of(client, other["documentId"]))["tags"] == ["t"]
    assert (large["status"], large["path"].startswith("in/n-")) == ("created", True)


@pytest.mark.parametrize(("field", "value"), [("onConflict", "rename"), ("keep", "tags,hash")])
async def test_what_can_not_be_asked_is_refused(client: httpx.AsyncClient, field: str, value: str) -> None:
    body = {"source": "e", "path": "x", "text": HERONS, field: value}

    assert problem(await client.post("/rag/ingest", json=body), 400).startswith(f"{field}: ")
    assert problem(await client.post(UPLOAD, params={field: value}, content=b"x"), 400).startswith(f"{field}: ")


# What is said of a document, changed without its body


def embedded(parts: ApiParts) -> float:
    return parts.registry.get_sample_value("sluice_embedded_texts_total") or 0.0


async def test_metadata_change_alone_and_nothing_is_embedded(client: httpx.AsyncClient, parts: ApiParts) -> None:
    text = "# Ferry\n\nThe ferry leaves at nine.\n\n# Harbour\n\nThe harbour has two piers."
    first = await ingested(client, "p.md", text, title="Boats", tags=["boats"], metadata={"year": 1900, "by": "A"})
    url, before = f"/rag/documents/{first['documentId']}", embedded(parts)
    shown = await client.get(url)

    changed = await client.patch(url, json={"tags": ["ferries"], "metadata": {"year": 1901}}, headers=PATIENT)
    again = await client.patch(url, json={"tags": ["ferries"], "title": "Boats"}, headers=PATIENT)
    whole = await ingested(client, "p.md", text, title="Boats", tags=["ferries"], metadata={"year": 1901})
    unembedded = embedded(parts)
    untitled = await client.patch(url, json={"title": None}, headers=PATIENT)

    chunks = (await client.get(f"{url}/chunks")).json()["items"]
    assert (changed.status_code, changed.json()["status"], "dropped" in changed.json()) == (200, "updated", False)
    assert again.json()["status"] == whole["status"] == "unchanged"
    assert untitled.json()["dropped"] == ["title"]
    assert {(*chunk["metadata"]["tags"], chunk["metadata"]["year"]) for chunk in chunks} == {("ferries", 1901)}
    assert not any("by" in chunk["metadata"] for chunk in chunks)
    assert {chunk["metadata"]["documentType"] for chunk in chunks} == {"md"}
    assert (await client.get(f"{url}/text")).text == text
    assert (await client.get(url)).json()["createdAt"] == shown.json()["createdAt"]
    assert unembedded == before
    assert embedded(parts) == before + len(chunks)


async def test_a_change_that_was_meant_for_another_version_is_refused(client: httpx.AsyncClient) -> None:
    first = await ingested(client, "m", HERONS)
    url = f"/rag/documents/{first['documentId']}"
    tag = (await client.get(url)).headers["etag"]

    fitting = await client.patch(url, json={"tags": "a"}, headers={**PATIENT, "If-Match": tag})
    late = await client.patch(url, json={"tags": "b"}, headers={**PATIENT, "If-Match": tag})
    shown = (await client.get(url)).json()
    anyhow = await client.patch(url, json={"tags": "c"}, headers={**PATIENT, "If-Match": "*"})

    assert fitting.status_code == anyhow.status_code == 200
    assert "has changed" in problem(late, 412, "CHANGED")
    assert (shown["tags"], shown["state"], shown["code"]) == (["a"], "ready", "CHANGED")
    problem(await client.patch(url, json={"tags": "b"}, headers={"If-Match": "yesterday"}), 400)
    problem(await client.patch(url, json={}), 400)
    problem(await client.patch(url, json={"text": "x"}), 400)
    await client.delete(url, headers=PATIENT)
    problem(await client.patch(url, json={"tags": "b"}, headers=PATIENT), 404)
    nobody = "/rag/documents/00000000-0000-5000-8000-000000000000"
    problem(await client.patch(nobody, json={"tags": "b"}), 404)


@pytest.mark.parametrize("kind", ["pages", "prepared"])
async def test_pages_and_prepared_chunks_stay(client: httpx.AsyncClient, kind: str) -> None:
    if kind == "pages":
        pdf = (Path(__file__).parents[2] / "deploy" / "samples" / "harbour-notice.pdf").read_bytes()
        id_ = (await sent(client, "notice.pdf", pdf, **PATIENT)).json()["documentId"]
    else:
        body = {
            "source": "e",
            "path": "c",
            "chunks": [{"text": "One.", "page": 3}, {"text": "Two.", "embeddingText": "2"}],
        }
        id_ = (await client.post("/rag/ingest", json=body, headers=PATIENT)).json()["documentId"]
    url = f"/rag/documents/{id_}"
    before = (await client.get(f"{url}/chunks")).json()["items"]

    reply = await client.patch(url, json={"tags": "x"}, headers=PATIENT)

    after = (await client.get(f"{url}/chunks")).json()["items"]
    assert reply.json()["status"] == "updated"
    assert [each["text"] for each in after] == [each["text"] for each in before]
    moving = {"version", "updatedAt", "tags", "origin", "semanticScore"}
    for old, new in zip(before, after, strict=True):
        kept = old["metadata"].keys() - moving
        assert {name: new["metadata"].get(name) for name in kept} == {name: old["metadata"][name] for name in kept}


@CI_ONLY
async def test_twenty_versions_at_once_are_each_told_an_end_of_their_own(client: httpx.AsyncClient) -> None:
    texts = [f"{HERONS} Copy {number}.".encode() for number in range(20)]

    replies = await asyncio.gather(*(sent(client, "many.txt", text, **PATIENT) for text in texts))

    statuses = [reply.json()["status"] for reply in replies]
    assert sorted(set(statuses)) in (["created", "updated"], ["created", "superseded", "updated"])
    assert statuses.count("created") == 1
