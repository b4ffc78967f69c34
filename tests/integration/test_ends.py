"""Every submission is told its own end, whatever is sent under the same name meanwhile. ADR 0054."""

import asyncio
from typing import Any

import httpx
import pytest

from services.query_api.app import ApiParts
from shared.log import Publish
from tests.e2e.faults import rounds
from tests.integration.api import HERONS, a_client, an_app, problem
from tests.servers.cache import CI_ONLY

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

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


@CI_ONLY
async def test_twenty_versions_at_once_are_each_told_an_end_of_their_own(client: httpx.AsyncClient) -> None:
    texts = [f"{HERONS} Copy {number}.".encode() for number in range(20)]

    replies = await asyncio.gather(*(sent(client, "many.txt", text, **PATIENT) for text in texts))

    statuses = [reply.json()["status"] for reply in replies]
    assert sorted(set(statuses)) in (["created", "updated"], ["created", "superseded", "updated"])
    assert statuses.count("created") == 1
