"""Many documents at once, large files, progress as it happens, and what the doors refuse."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Litestar

from services.query_api.app import ApiParts
from services.query_api.http import linger
from services.query_api.ingest import batch
from services.query_api.ingest.submissions import StatusWaiters
from shared.contracts import DocumentSubmitted, decode
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log import Publish
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from tests.integration.api import HERONS, LANTERN, MAX_BODY, a_client, an_app, events, ingested, listening, problem, raw
from tests.selection import CI_ONLY

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]

NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
BATCH = "/rag/ingest/batch"


def item(path: object, text: str = HERONS, **fields: Any) -> dict[str, Any]:
    return {"source": "batch", "path": str(path), "text": text, **fields}


def lines(items: list[Any]) -> bytes:
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in items).encode()


def with_settings(parts: ApiParts, **changed: Any) -> Settings:
    return parts.settings.model_copy(update=changed)


# Batch


@pytest.mark.parametrize("prefix", ["", "/api"])
@pytest.mark.parametrize("form", ["array", "lines"])
async def test_a_batch_says_how_each_item_stands(client: httpx.AsyncClient, form: str, prefix: str) -> None:
    items = [item("a"), item("b", tags="x,y", metadata='{"year": 1900}'), item("c", text=" "), item("d")]
    content, headers = (json.dumps(items).encode(), JSON) if form == "array" else (lines(items), NDJSON)

    told = await client.post(prefix + BATCH, content=content, headers=headers)
    waited = await client.post(prefix + BATCH, content=content, headers={**headers, "Prefer": "wait=200"})

    body = told.json()
    assert (told.status_code, body["message"], body["taken"], body["failed"]) == (202, "3 of 4 items accepted", 3, 1)
    assert [each["index"] for each in body["items"]] == [0, 1, 2, 3]
    assert [each["status"] for each in body["items"]] == ["accepted", "accepted", "failed", "accepted"]
    assert body["items"][2].items() >= {"error": "text: must not be empty", "code": "INVALID"}.items()
    assert waited.status_code == 200
    assert waited.headers["preference-applied"] == "wait=200"
    done = [each for each in waited.json()["items"] if each["index"] != 2]
    assert {each["status"] for each in done} <= {"created", "unchanged"}
    assert [each["chunkCount"] for each in done] == [1, 1, 1]
    assert [each["documentId"] for each in done] == [each["documentId"] for each in body["items"] if each["index"] != 2]
    [hit] = (await client.post("/rag/search", json={"query": "herons", "filters": {"year": 1900}})).json()["results"]
    assert (hit["metadata"]["path"], hit["metadata"]["tags"]) == ("b", ["x", "y"])


async def test_items_of_the_same_document_stay_in_their_order(client: httpx.AsyncClient) -> None:
    items = [item("same", f"Version {n} of the harbour notice.") for n in range(9)]

    reply = await client.post(BATCH, json=items, headers={"Prefer": "wait=200"})
    [hit] = (await client.post("/rag/search", json={"query": "harbour notice"})).json()["results"]

    assert reply.status_code == 200
    assert hit["text"] == "Version 8 of the harbour notice."


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("nope", "the item is not valid JSON"),
        ("7", "the body must be an object, not a number"),
        ("[]", "the body must be an object, not a list"),
        ("null", "the body must be an object, not null"),
        ('{"source": "s", "path": "p"}', "text: is required"),
        ('{"source": true, "path": "p", "text": "t"}', "source: must be text, not true"),
        ('{"source": "s", "path": "p", "text": "t", "tags": [true]}', "tags[0]: must be text"),
        ('{"source": "s", "path": "p", "text": "\\ud800"}', "the item is not valid JSON"),
        (json.dumps(item("p" * 3000)), "path: has 3000 characters"),
        (json.dumps(item("large", "x" * MAX_BODY)), f"the item is larger than {MAX_BODY} bytes"),
        ('{"metadata":' * 10_000, "the item is nested too deeply"),
    ],
)
async def test_an_item_that_is_refused_says_why_and_stops_no_other(
    client: httpx.AsyncClient, bad: str, said: str
) -> None:
    reply = await client.post(BATCH, content=lines([item("before"), bad, item("after")]), headers=NDJSON)

    before, refused, after = reply.json()["items"]
    assert (reply.status_code, before["status"], after["status"]) == (202, "accepted", "accepted")
    assert (refused["index"], refused["status"]) == (1, "failed")
    assert refused["error"].startswith(said)


async def test_a_batch_of_nothing_but_failures_is_no_success(client: httpx.AsyncClient) -> None:
    reply = await client.post(BATCH, json=[item("a", text=""), 7])

    assert problem(reply, 422) == "none of the 2 items was accepted"
    assert [each["index"] for each in reply.json()["details"]["items"]] == [0, 1]
    assert (await client.post(BATCH, json=[])).json()["message"] == "0 of 0 items accepted"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps([item("a"), item("b")])[:-1].encode(), "the array is not closed"),
        (json.dumps([item("a")]).encode() + b"x", "the body has more data after its array"),
    ],
)
async def test_a_body_that_breaks_off_tells_what_was_taken(
    client: httpx.AsyncClient, content: bytes, said: str
) -> None:
    reply = await client.post(BATCH, content=content, headers=JSON)

    told = problem(reply, 400)
    assert told.startswith(said)
    assert told.endswith("1 of the 1 items before it were accepted; sending the whole batch again is safe")
    assert [each["status"] for each in reply.json()["details"]["items"]] == ["accepted"]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b" \n", "application/x-ndjson", 400),
        (b"[", "application/json", 400),
        (b"[[[[", "application/json", 400),
        (b'["', "application/json", 400),
        (b"\xff\xfe[1]", "application/json", 422),
        (b"{", "application/json", 422),
        (b"a=1", "application/x-www-form-urlencoded", 422),
        (b"{}", "text/csv", 415),
        (b"{}", "multipart/form-data; boundary=x", 415),
        (b"]" * 1000, "application/json", 422),
        (b"[" * 200_000, "application/json", 400),
    ],
)
async def test_no_batch_is_ever_a_500(client: httpx.AsyncClient, content: bytes, kind: str, status: int) -> None:
    problem(await client.post(BATCH, content=content, headers={"Content-Type": kind}), status)


async def test_a_batch_above_its_limit_is_refused_as_early_as_can_be(parts: ApiParts, tenants: Iterator[str]) -> None:
    async def unannounced() -> AsyncIterator[bytes]:
        for n in range(100):
            yield lines([item(n)]) + b"\n"

    limited = an_app(parts, settings=with_settings(parts, max_batch=1024))
    async with a_client(limited, next(tenants)) as client:
        announced = await client.post(BATCH, content=b"x" * 1025, headers=NDJSON)
        streamed = await client.post(BATCH, content=unannounced(), headers=NDJSON)

    assert problem(announced, 413, "TOO_LARGE").startswith("the body is larger than 1024 bytes")
    assert announced.json()["details"] == {"limit": 1024}
    problem(streamed, 413)
    taken = streamed.json()["details"]["taken"]
    assert 0 < taken < 10


async def test_a_log_that_goes_away_ends_the_batch_and_says_what_was_taken(
    parts: ApiParts, unread: Publish, tenants: Iterator[str]
) -> None:
    taken = 0

    async def failing(*what: Any, **how: Any) -> Any:
        nonlocal taken
        if taken == 70:
            raise Unavailable("the log is away")
        taken += 1
        return await unread(*what, **how)

    async with a_client(an_app(parts, publish=failing), next(tenants)) as client:
        reply = await client.post(BATCH, content=lines([item(n) for n in range(500)]), headers=NDJSON)

    assert "70 of the 128 items before it were accepted; sending the whole batch again is safe" in problem(
        reply, 503, "UNAVAILABLE"
    )
    assert int(reply.headers["retry-after"]) > 0
    statuses = [each["status"] for each in reply.json()["details"]["items"]]
    assert statuses == ["accepted"] * 70 + ["failed"] * 58


@CI_ONLY
async def test_a_large_batch_is_not_held_in_memory(
    parts: ApiParts, unread: Publish, tenants: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "WINDOW", 4)
    text, count = "x" * 60_000, 200

    async def body() -> AsyncIterator[bytes]:
        for n in range(count):
            yield lines([item(n, text) if n % 100 else "bad"]) + b"\n"

    async with a_client(an_app(parts, publish=unread), next(tenants)) as client:
        tracemalloc.start()
        try:
            reply = await client.post(BATCH, content=body(), headers=NDJSON)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (reply.json()["taken"], reply.json()["failed"]) == (198, 2)
    assert peak < count * len(text) / 2  # a few items at once, each in a few forms


# Files


async def test_a_knowledge_base_takes_files_too(client: httpx.AsyncClient) -> None:
    form = {"title": "Herons", "description": "About them", "tags": ["a", "b,c"], "tags[]": ["d"]}

    pending = await client.post("/api/knowledge-base", files={"anything": ("h.txt", HERONS.encode())}, data=form)
    headers = {"Prefer": "wait=200"}
    done = await client.post("/knowledge-base", files={"f": ("h.txt", HERONS.encode())}, data=form, headers=headers)

    told = pending.json()
    assert (pending.status_code, told["status"], told["processingStatus"]) == (202, "pending", {"progress": 0})
    assert told["id"] == told["documentId"] == pending.headers["location"].partition("?")[0].rpartition("/")[2]
    assert (told["title"], told["description"], told["filename"]) == ("Herons", "About them", "h.txt")
    assert told["tags"] == ["a", "b", "c", "d"]
    assert (done.status_code, done.json()["status"], done.json()["chunkCount"]) == (200, "completed", 1)
    assert done.json()["id"] == told["id"]


@CI_ONLY
async def test_a_knowledge_base_refuses_what_is_no_file_or_not_one(client: httpx.AsyncClient) -> None:
    two = [("a", ("a.txt", b"one")), ("b", ("b.txt", b"two"))]

    assert problem(await client.post("/knowledge-base", files=two), 400).startswith("file: 2 files were sent")
    problem(await client.post("/knowledge-base", data={"title": "none"}), 400)
    failed = await client.post("/knowledge-base", files={"f": ("b.pdf", b"%PDF-1.7 -")}, headers={"Prefer": "wait=200"})
    problem(failed, 422, "DAMAGED")


@CI_ONLY
@pytest.mark.parametrize("form", ["multipart", "raw"])
async def test_a_large_file_arrives_whole(parts: ApiParts, unread: Publish, tenants: Iterator[str], form: str) -> None:
    content = HERONS.encode() * 30_000  # on the disk while it comes
    submitted: list[DocumentSubmitted] = []

    async def kept(topic: str, value: bytes, **how: Any) -> Any:
        submitted.append(decode(value, DocumentSubmitted))
        return await unread(topic, value, **how)

    limits = with_settings(parts, max_body=len(content) + 1000)
    async with a_client(an_app(parts, settings=limits, publish=kept), next(tenants)) as client:
        client.headers["Prefer"] = "wait=0"
        if form == "multipart":
            reply = await client.post("/rag/ingest/upload", files={"f": ("h.txt", content)})
        else:
            headers = {"X-Filename": "h.txt", "Content-Type": "text/plain"}
            reply = await client.post("/rag/ingest/upload", content=content, headers=headers)

    assert reply.status_code == 202, reply.text
    [document] = submitted
    assert document.blob is not None
    assert await parts.blobs.get(document.tenant, document.document_id, document.blob) == content


# Events


async def watched(client: httpx.AsyncClient, path: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    reply = await client.get(path, headers=headers)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return events(reply.text)


async def test_a_document_is_watched_until_it_is_searchable(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "watched", "text": HERONS}
    accepted = await client.post("/api/rag/ingest", json=body, headers={"Prefer": "wait=0"})
    link = accepted.headers["link"]
    assert link.endswith('>; rel="monitor"')
    path = link.removeprefix("<").partition(">")[0]

    *before, (last, told) = await watched(client, path)
    updating = await client.post("/rag/ingest", json=body | {"text": LANTERN}, headers={"Prefer": "wait=0"})
    *_, (_, newer) = await watched(client, updating.headers["link"].removeprefix("<").partition(">")[0])

    assert path.startswith("/api/rag/documents/")
    assert {name for name, _ in before} <= {"received", "extracted", "embedding"}
    assert (last, told["status"], told["chunkCount"]) == ("searchable", "created", 1)
    assert (newer["status"], newer["version"] > told["version"]) == ("updated", True)


async def test_who_comes_back_after_the_end_is_sent_away(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client)
    first = await client.get(f"/rag/documents/{id_}/events")
    ids = [line.removeprefix("id: ") for line in first.text.splitlines() if line.startswith("id: ")]

    again = await client.get(f"/rag/documents/{id_}/events", headers={"Last-Event-ID": ids[-1]})
    nonsense = await watched(client, f"/rag/documents/{id_}/events", **{"Last-Event-ID": "nonsense"})
    await client.delete(f"/rag/documents/{id_}")
    [(gone, _)] = await watched(client, f"/rag/documents/{id_}/events", **{"Last-Event-ID": ids[-1]})

    assert (again.status_code, again.content) == (204, b"")
    assert [name for name, _ in nonsense] == ["searchable"]
    assert gone == "deleted"


@pytest.mark.parametrize("field", ["title", "description", "hash"])
async def test_a_field_that_is_too_long_is_named_at_every_door(client: httpx.AsyncClient, field: str) -> None:
    long = {"source": "s", "path": "long", field: "x" * 20_000}
    file = {"file": ("a.txt", HERONS)}

    refused = [
        await client.post("/rag/ingest", json=long | {"text": HERONS}),
        await client.post("/rag/ingest/upload", files=file, data=long),
        await client.post("/knowledge-base", files=file, data=long),
    ]
    if field != "hash":
        refused.append(await client.patch(f"/rag/documents/{await ingested(client)}", json={field: "x" * 20_000}))
    batch = await client.post("/rag/ingest/batch", json=[long | {"text": HERONS}])

    assert {problem(each, 400).partition(" characters")[0] for each in refused} == {f"{field}: has 20000"}
    assert batch.json()["details"]["items"][0]["error"].startswith(f"{field}: has 20000 characters")


async def test_a_filename_and_a_type_have_limits_beside_the_path(client: httpx.AsyncClient) -> None:
    names = [("a" * 3000 + ".txt", "text/plain"), ("a.txt", "text/plain; a=" + "m" * 3000)]
    replies = [
        await client.post("/rag/ingest/upload", files={"file": (name, HERONS, kind)}, data={"path": "a.txt"})
        for name, kind in names
    ]

    assert [problem(each, 400).partition(":")[0] for each in replies] == ["filename", "mediaType"]


@CI_ONLY
async def test_a_failure_is_told_by_its_reason(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/ingest/upload", files={"file": ("broken.pdf", b"%PDF-1.7 nothing")})

    [(name, told)] = await watched(client, f"/rag/documents/{reply.json()['details']['documentId']}/events")

    assert (name, told["status"], told["code"]) == ("failed", "failed", "DAMAGED")
    assert "broken.pdf" in told["error"]


async def test_a_stopping_server_ends_the_watching(parts: ApiParts, unread: Publish, tenants: Iterator[str]) -> None:
    notices = StatusWaiters()
    async with a_client(an_app(parts, publish=unread, notices=notices), next(tenants)) as client:
        accepted = await client.post("/rag/ingest", json=item("w"), headers={"Prefer": "wait=0"})
        watching = asyncio.create_task(client.get(f"/rag/documents/{accepted.json()['documentId']}/events"))
        notices.close()  # before or after it watches: both end it

        assert (await watching).status_code == 200


async def test_only_ones_own_documents_can_be_watched(
    app: Litestar, client: httpx.AsyncClient, tenants: Iterator[str]
) -> None:
    id_ = await ingested(client)

    async with a_client(app, next(tenants)) as stranger:
        problem(await stranger.get(f"/rag/documents/{id_}/events"), 404)
    problem(await client.get(f"/rag/documents/{document_id('no', 'such', 'thing')}/events"), 404)
    assert problem(await client.get(f"/rag/documents/{id_}/events?since=1/x/2"), 400).startswith("since:")


# Refusals


async def test_after_a_time_out_it_is_said_that_nobody_knows(
    parts: ApiParts, tenants: Iterator[str], unread: Any
) -> None:
    hasty = partial(unread, timeout_s=0)

    async with a_client(an_app(parts, publish=hasty), next(tenants)) as client:
        reply = await client.post("/rag/ingest", json=item("p"))

    said = problem(reply, 503, "OUTCOME_UNKNOWN")
    assert "it is unknown whether the record is stored" in said
    assert "sending the document again is safe" in said


async def test_a_refused_log_takes_nothing(parts: ApiParts, tenants: Iterator[str], tmp_path: Path) -> None:
    unreachable = partial(publish, SqliteLog(tmp_path / "log").broker("never started"))

    async with a_client(an_app(parts, publish=unreachable), next(tenants)) as client:
        batch = await client.post(BATCH, json=[item("a")])
        base = await client.post("/knowledge-base", files={"f": ("h.txt", HERONS.encode())})

    problem(batch, 503, "UNAVAILABLE")
    problem(base, 503, "UNAVAILABLE")


async def test_the_reason_of_a_refusal_reaches_who_is_still_sending(
    app: Litestar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends all of its body first, and asks for the connection to be closed, as n8n does."""
    monkeypatch.setattr(linger, "LINGER_S", 60)  # longer than a slow machine takes to send it
    size = MAX_BODY * 8  # more than the sockets' buffers hold
    head = raw("/rag/ingest", "Content-Type: application/json", "Connection: close", f"Content-Length: {size}")

    async with listening(app) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(head)
        for _ in range(80):
            writer.write(b"x" * (size // 80))
            await writer.drain()
        answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.1 413")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["details"] == {"limit": MAX_BODY}


async def test_the_schema_describes_every_door(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()

    paths = schema["paths"]
    items = paths[BATCH]["post"]["requestBody"]["content"]["application/json"]["schema"]["items"]
    assert items["$ref"].rpartition("/")[2] in schema["components"]["schemas"]
    assert "application/x-ndjson" in paths[BATCH]["post"]["requestBody"]["content"]
    assert "multipart/form-data" in paths["/knowledge-base"]["post"]["requestBody"]["content"]
    assert paths["/rag/documents/{document_id}/events"]["get"]["operationId"] == "rag_document_events"
