"""The API on the standalone adapters and the real workers, each test as a tenant of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from litestar import Litestar
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.routes import ASGIRoute, HTTPRoute
from pydantic import SecretStr
from structlog.testing import capture_logs

from services.query_api.app import ROUTES, ApiParts
from services.query_api.http.route_decorator import ROUTE_ROLES
from services.query_api.ingest.submissions import StatusWaiters
from services.standalone.serve import start
from shared.answers import Conversation
from shared.answers.ollama import OllamaAnswers
from shared.answers.prompt import CONTEXT
from shared.blobs.file import FileBlobs
from shared.errors import Unavailable
from shared.ids import document_id
from shared.log import Publish
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.model_server.ollama import OllamaAddress
from shared.runtime.probes import OPEN
from shared.settings import SHORT_KEY, Settings
from shared.state.index import Index
from tests.answering import models_of
from tests.integration.api import HERONS, LANTERN, MAX_BODY, a_client, an_app, events, ingested, listening, problem, raw
from tests.selection import CI_ONLY, sampled
from tests.servers.fake_ollama import CHAT_MODEL, FakeOllama, fake_ollama

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Ingest


@pytest.mark.feature(42, 43, 44, 45, 47)
async def test_a_document_is_created_left_alone_updated_and_deleted(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "lantern.md", "text": LANTERN, "hash": "sha256-of-it"}

    created = await client.post("/api/rag/ingest", json=body)
    unchanged = await client.post("/rag/ingest", json=body)
    updated = await client.post("/rag/ingest", json=body | {"text": HERONS})
    gone = await client.delete(f"/rag/documents/{created.json()['documentId']}")
    again = await client.delete(f"/rag/documents/{created.json()['documentId']}")

    id_ = created.json()["documentId"]
    assert created.json() == {"status": "created", "documentId": id_, "chunkCount": 1}
    assert unchanged.json() == {"status": "unchanged", "documentId": id_, "chunkCount": 1}
    replaced = updated.json().pop("replaced")
    assert replaced.keys() == {"version", "updatedAt"}
    assert updated.json() == {"status": "updated", "documentId": id_, "chunkCount": 1, "replaced": replaced}
    assert gone.json() == again.json() == {"status": "deleted", "documentId": id_}
    assert {reply.status_code for reply in (created, unchanged, updated, gone, again)} == {200}
    assert (await client.post("/rag/search", json={"query": "herons"})).json() == {"results": []}


@pytest.mark.feature(61, 63)
async def test_who_does_not_wait_is_told_where_to_look(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "a", "text": LANTERN}

    reply = await client.post("/api/rag/ingest", json=body, headers={"Prefer": "wait=0"})
    patient = await client.post("/rag/ingest", json=body, headers={"Prefer": "wait=20"})

    id_ = reply.json()["documentId"]
    told = {"status": "accepted", "documentId": id_, "submission": reply.json()["submission"]}
    assert (reply.status_code, reply.json()) == (202, told)
    assert reply.headers["location"] == f"/api/rag/documents/{id_}?submission={told['submission']}"
    assert int(reply.headers["retry-after"]) > 0
    assert reply.headers["preference-applied"] == "wait=0"
    assert (patient.status_code, patient.headers["preference-applied"]) == (200, "wait=20")
    assert (await client.get(reply.headers["location"])).json()["chunkCount"] == 1


@pytest.mark.feature(52, 62)
async def test_a_text_needs_no_name(client: httpx.AsyncClient) -> None:
    titled = (await client.post("/rag/ingest/text", json={"title": "Herons", "text": HERONS})).json()
    nameless = (await client.post("/rag/ingest/text", json={"text": HERONS})).json()
    once_more = (await client.post("/rag/ingest/text", json={"text": HERONS})).json()

    assert titled["status"] == nameless["status"] == "created"
    assert titled["documentId"] != nameless["documentId"] == once_more["documentId"]
    assert titled["sourceId"] == titled["documentId"]
    assert titled["chunksCreated"] == titled["chunkCount"] == 1
    assert titled["message"] == "document created, 1 chunk"
    assert once_more["status"] == "unchanged"


@pytest.mark.feature(36)
async def test_ready_made_chunks_are_taken_and_those_left_out_are_named(client: httpx.AsyncClient) -> None:
    hello = {"id": "a1", "text": "Hello there.", "embeddingText": "greeting for strangers", "tags": {"phase": 1}}
    body = {"source": "s", "path": "lines", "chunks": [hello, {"id": "a2", "text": " "}, "See you soon.", 5]}

    reply = await client.post("/rag/ingest", json=body)
    found = await client.post("/rag/search", json={"query": "greeting for strangers", "filters": {"phase": 1}})
    text = await client.get(f"/rag/documents/{reply.json()['documentId']}/text", headers={"Accept": "text/plain"})

    assert (reply.status_code, reply.json()["status"], reply.json()["chunkCount"]) == (200, "created", 2)
    assert reply.json()["skipped"] == [
        {"index": 1, "error": "text is empty", "id": "a2"},
        {"index": 3, "error": "a chunk must be an object or a string"},
    ]
    [hit] = found.json()["results"]
    assert (hit["text"], hit["metadata"]["chunk_id"], hit["metadata"]["chunkType"]) == (
        "Hello there.",
        "a1",
        "semantic",
    )
    assert text.text == "Hello there.\n\nSee you soon."


@pytest.mark.feature(70)
async def test_a_chunk_that_the_model_cannot_take_fails_the_document_by_name(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "lines", "chunks": ["Short.", {"id": "long", "text": "word " * 400}]}

    sentence = problem(await client.post("/rag/ingest", json=body), 422, "CHUNK_TOO_LONG")

    assert sentence.startswith("chunk 1 (long) has 400 tokens, the model takes 254")


@pytest.mark.feature(49)
async def test_a_document_is_chunked_in_the_size_that_it_asks_for(client: httpx.AsyncClient) -> None:
    text = " ".join(f"Lantern {number} burns whale oil on the pier." for number in range(20))

    id_ = await ingested(client, text, chunkSize="200", chunkOverlap=50)
    items = (await client.get(f"/rag/documents/{id_}/chunks")).json()["items"]

    assert len(items) >= 4
    assert max(len(item["text"]) for item in items) <= 200
    assert 0 < len(items[1]["metadata"]["contextBefore"]) <= 50
    assert 0 < items[1]["metadata"]["semanticScore"] < 1


async def test_forms_and_numbers_as_strings_are_taken(client: httpx.AsyncClient) -> None:
    form = {"source": "s", "path": "f", "text": LANTERN, "tags": ["a", "b"], "metadata": '{"year": 1900}'}

    reply = await client.post("/rag/ingest", data=form)
    by_form = await client.post("/rag/search", data={"query": "lantern", "topK": "3", "filters": '{"year": 1900}'})
    by_json = await client.post("/rag/search", json={"query": "lantern", "topK": "3", "filters": '{"tags": ["b"]}'})
    by_curl = await client.post(
        "/rag/search",
        content=b'{"query": "lantern"}',
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert reply.json()["status"] == "created"
    for found in (by_form, by_json, by_curl):
        assert [hit["metadata"]["path"] for hit in found.json()["results"]] == ["f"]


@pytest.mark.feature(50)
async def test_a_file_is_taken_under_any_field_name(client: httpx.AsyncClient) -> None:
    form = {"source": "files", "title": "Notes", "tags": ["a", "b,c"], "metadata": '{"floor": 2}'}

    reply = await client.post("/rag/ingest/upload", files={"whatever": ("notes.txt", HERONS.encode())}, data=form)
    [hit] = (await client.post("/rag/search", json={"query": "herons"})).json()["results"]

    assert (reply.status_code, reply.json()["chunksCreated"]) == (200, 1)
    metadata = hit["metadata"]
    assert (metadata["source"], metadata["path"], metadata["title"]) == ("files", "notes.txt", "Notes")
    assert (metadata["tags"], metadata["floor"], metadata["originalFilename"]) == (["a", "b", "c"], 2, "notes.txt")


async def test_a_raw_body_is_a_file(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "text/markdown", "X-Filename": "gr%C3%BC%C3%9Fe.md"}

    named = await client.post("/rag/ingest/upload?tags=x", content=LANTERN.encode(), headers=headers)
    nameless = await client.post("/rag/ingest/upload", content=HERONS.encode(), headers={"Content-Type": "text/plain"})

    shown = (await client.get(f"/rag/documents/{named.json()['documentId']}")).json()
    assert (shown["source"], shown["path"], shown["tags"]) == ("upload", "grüße.md", ["x"])
    assert nameless.json()["status"] == "created"


async def test_several_files_each_get_their_own_answer(client: httpx.AsyncClient) -> None:
    files = [("a", ("good.txt", HERONS.encode())), ("b", ("bad.pdf", b"%PDF-1.7 none")), ("c", ("empty.txt", b""))]

    reply = await client.post("/rag/ingest/upload", files=files)
    none = await client.post("/rag/ingest/upload", files=files[1:])

    good, bad, empty = reply.json()["items"]
    assert (reply.status_code, reply.json()["message"]) == (200, "1 of 3 files accepted")
    assert (good["file"], good["status"], good["chunkCount"]) == ("good.txt", "created", 1)
    assert (bad["file"], bad["status"]) == ("bad.pdf", "failed")
    assert "bad.pdf" in bad["error"]
    assert (empty["status"], empty["code"]) == ("failed", "INVALID")
    assert problem(none, 422) == "none of the 2 files could be processed"


@pytest.mark.feature(93)
async def test_what_cannot_be_processed_is_a_422_with_the_reason(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/ingest/upload", files={"file": ("broken.pdf", b"%PDF-1.7 nothing")})

    assert "broken.pdf" in problem(reply, 422, "DAMAGED")
    shown = (await client.get(f"/rag/documents/{reply.json()['details']['documentId']}")).json()
    assert (shown["status"], shown["code"], shown["error"]) == ("failed", "DAMAGED", reply.json()["detail"])


@pytest.mark.feature(95)
async def test_a_large_text_travels_by_reference_and_comes_back_whole(client: httpx.AsyncClient) -> None:
    text = "\n\n".join([HERONS] * 3000)  # equal chunks cost one embedding

    id_ = await ingested(client, text)

    assert len(text) > 256 * 1024
    assert (await client.get(f"/rag/documents/{id_}/text")).text == text
    assert (await client.get(f"/rag/documents/{id_}")).json()["chunkCount"] > 300


@pytest.mark.feature(46, 57)
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"path": "p", "text": "t"}, "source"),
        ({"source": "s", "text": "t"}, "path"),
        ({"source": "s", "path": "p"}, "text"),
        ({"source": "s", "path": "p", "url": "ftp://example.org"}, "url"),
        ({"source": "s", "path": "p", "text": " \n"}, "text"),
        ({"source": " ", "path": "p", "text": "t"}, "source"),
        ({"source": "s", "path": "p" * 3000, "text": "t"}, "path"),
        ({"source": True, "path": "p", "text": "t"}, "source"),
        ({"source": "s", "path": "p", "text": None}, "text"),
        ({"source": "s", "path": "p", "text": "t", "chunks": ["c"]}, "chunks"),
        ({"source": "s", "path": "p", "chunks": []}, "chunks"),
        ({"source": "s", "path": "p", "chunks": {"text": "t"}}, "chunks"),
        ({"source": "s", "path": "p", "chunks": [{"text": 5}]}, "chunks"),
        ({"source": "s", "path": "p", "chunks": ["c"], "chunkSize": 200}, "chunkSize"),
        ({"source": "s", "path": "p", "text": "t", "chunkSize": 99}, "chunkSize"),
        ({"source": "s", "path": "p", "text": "t", "chunkSize": 2001}, "chunkSize"),
        ({"source": "s", "path": "p", "text": "t", "chunkSize": 200, "chunkOverlap": 101}, "chunkOverlap"),
        ({"source": "s", "path": "p", "text": "t", "chunkOverlap": -1}, "chunkOverlap"),
        ({"source": "s", "path": "p", "text": "t", "tags": [True]}, "tags[0]"),
        ({"source": "s", "path": "p", "text": "t", "metadata": [1]}, "metadata"),
        ({"source": "s", "path": "p", "text": "t", "metadata": {"a": 10**30}}, "metadata.a"),
        ([], "the body"),
        (None, "the body"),
    ],
)
async def test_a_bad_document_is_a_400_that_names_the_field(client: httpx.AsyncClient, body: Any, field: str) -> None:
    reply = await client.post("/rag/ingest", content=json.dumps(body), headers={"Content-Type": "application/json"})

    assert problem(reply, 400, "INVALID").startswith("the body must be" if field == "the body" else f"{field}:")


@pytest.mark.feature(252)
@pytest.mark.parametrize("path", ["/rag/ingest", "/rag/ingest/text", "/rag/search", "/rag/query", "/chat"])
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"NaN", "application/json", 400),
        (b'{"query": "\\ud800", "text": "\\ud800"}', "application/json", 400),
        (b"[" * 200_000, "application/json", 400),
        (b'{"metadata":' * 30_000, "application/json", 400),
        (b'{"text": 1e999}', "application/json", 400),
        (b"\xff\xfe{}", "application/json", 400),
        (b"{}", "application/json", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"{}", "text/xml", 415),
        (b"{}", "application/json, application/json", 415),
        (b"x" * (MAX_BODY + 1), "application/json", 413),
    ],
)
async def test_no_body_is_ever_a_500(
    client: httpx.AsyncClient, path: str, content: bytes, kind: str, status: int
) -> None:
    problem(await client.post(path, content=content, headers={"Content-Type": kind}), status)


HALF_A_CHARACTER = (
    b'--x\r\nContent-Disposition: form-data; name="title"\r\n'
    b"Content-Type: text/plain; charset=unicode_escape\r\n\r\n\\ud800\r\n"
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nhi\r\n--x--\r\n'
)


@pytest.mark.feature(58)
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "multipart/form-data"),
        (b"", "multipart/form-data; boundary=x"),
        (b"--x\r\nnonsense", "multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nno file\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        (
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        (
            b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        *(
            (
                b'--x\r\nContent-Disposition: form-data; name="title"\r\n'
                b"Content-Type: text/plain; charset=%s\r\n\r\nT\xff\r\n--x--\r\n" % charset,
                "multipart/form-data; boundary=x",
            )
            for charset in (b"undefined", b"idna", b"punycode", b"zlib", b"nowhere", b'"a\0b"')
        ),
        (
            HALF_A_CHARACTER,
            "multipart/form-data; boundary=x",
        ),
        (b"", "text/plain"),
        (b"source=s&path=p", "application/x-www-form-urlencoded"),
    ],
)
async def test_an_upload_without_a_readable_file_is_a_400(client: httpx.AsyncClient, content: bytes, kind: str) -> None:
    problem(await client.post("/rag/ingest/upload", content=content, headers={"Content-Type": kind}), 400)


@pytest.mark.parametrize("host", ["127.0.0.1:99999999", "127.0.0.1:abc"])
async def test_a_host_whose_port_is_none_is_a_400_that_names_it(client: httpx.AsyncClient, host: str) -> None:
    reply = await client.post("/web-search", json={"query": "lantern"}, headers={"Host": host})

    assert problem(reply, 400) == f"Host: '{host}' is not a name with a port"


async def test_a_subject_beyond_64_bits_is_a_400_that_names_it(client: httpx.AsyncClient) -> None:
    body = {"source": "s", "path": "p", "text": "x", "subjectId": 2**70}

    assert problem(await client.post("/rag/ingest", json=body), 400).startswith(
        "metadata.subjectId: is an integer beyond"
    )


@pytest.mark.feature(60, 201)
async def test_a_file_over_the_limit_is_a_413_that_says_it(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/ingest/upload", files={"file": ("large.txt", b"x" * MAX_BODY)})

    assert str(MAX_BODY) in problem(reply, 413, "TOO_LARGE")
    assert reply.json()["details"] == {"limit": MAX_BODY}


async def test_a_path_cannot_name_two_files(client: httpx.AsyncClient) -> None:
    files = [("a", ("a.txt", b"one")), ("b", ("b.txt", b"two"))]

    assert problem(await client.post("/rag/ingest/upload", files=files, data={"path": "p"}), 400).startswith("path:")


async def test_odd_file_names_are_names(client: httpx.AsyncClient) -> None:
    names = [".", "..\\up.txt", "new\nline.txt", "semi;colon.txt", "rtl\u202etxt.exe", "%2e%2e%2fup.txt", "العربية.txt"]

    replies = [await client.post("/rag/ingest/upload", files={"file": (name, HERONS.encode())}) for name in names]

    blank = await client.post("/rag/ingest/upload", content=b"x", headers={"X-Filename": "%20"})

    assert [reply.status_code for reply in (*replies, blank)] == [200] * (len(names) + 1)


# Documents


async def test_documents_are_listed_newest_first_page_by_page(client: httpx.AsyncClient) -> None:
    ids = [await ingested(client, f"{HERONS} {n}", path=str(n), tags=["odd" if n % 2 else "even"]) for n in range(5)]
    await client.delete(f"/rag/documents/{ids[0]}")

    seen, cursor = [], ""
    while True:
        page = (await client.get("/rag/documents", params={"limit": 2, "cursor": cursor})).json()
        seen += [item["documentId"] for item in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    odd = (await client.get("/rag/documents?tags[]=odd")).json()["items"]
    one_of = (await client.get("/rag/documents?tags=odd,none")).json()["items"]
    deleted = (await client.get("/rag/documents?status=deleted")).json()["items"]

    assert seen == ids[:0:-1]
    assert [item["documentId"] for item in odd] == [item["documentId"] for item in one_of] == [ids[3], ids[1]]
    assert [item["documentId"] for item in deleted] == [ids[0]]
    assert (await client.get("/rag/documents?source=none")).json() == {"items": [], "nextCursor": None}


async def test_a_document_shows_how_it_stands(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, tags=["x"])

    shown = (await client.get(f"/api/rag/documents/{id_}")).json()

    assert shown.items() >= {"documentId": id_, "source": "s", "path": "lantern.md", "status": "created"}.items()
    assert (shown["title"], shown["chunkCount"], shown["tags"]) == ("Lantern", 1, ["x"])
    assert shown["version"] > 0
    assert shown["createdAt"] <= shown["updatedAt"]
    assert shown["updatedAt"].endswith("Z")


@pytest.mark.feature(33)
@pytest.mark.feature(162)
async def test_chunks_come_in_reading_order_until_the_document_changes(client: httpx.AsyncClient) -> None:
    texts = [f"Paragraph {n}: {HERONS * 6}" for n in range(7)]
    id_ = await ingested(client, "\n\n".join(texts))
    first = (await client.get(f"/rag/documents/{id_}/chunks", params={"limit": 3})).json()
    items, cursor = first["items"], first["nextCursor"]
    while cursor:
        page = (await client.get(f"/rag/documents/{id_}/chunks", params={"limit": 3, "cursor": cursor})).json()
        items, cursor = items + page["items"], page["nextCursor"]
    await ingested(client, "\n\n".join(texts[1:]))

    stale = await client.get(f"/rag/documents/{id_}/chunks", params={"cursor": first["nextCursor"]})

    assert [item["metadata"]["chunkOrder"] for item in items] == list(range(7))
    assert [item["text"] for item in items] == texts
    assert (
        not {"tenant", "vectorHash", "chunkHash", "embeddedHash", "origin", "textBlob", "textSize"}
        & items[0]["metadata"].keys()
    )
    assert "has changed" in problem(stale, 409)


async def test_the_text_is_markdown_or_plain(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client)

    markdown = await client.get(f"/rag/documents/{id_}/text")
    plain = await client.get(f"/rag/documents/{id_}/text", headers={"Accept": "text/plain"})

    assert (markdown.text, markdown.headers["content-type"]) == (LANTERN, "text/markdown; charset=utf-8")
    assert plain.text == LANTERN.removeprefix("# ") + "\n"
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("state", ["deleted", "failed"])
async def test_a_document_without_an_answering_version_has_no_text(client: httpx.AsyncClient, state: str) -> None:
    if state == "deleted":
        id_ = await ingested(client)
        await client.delete(f"/rag/documents/{id_}")
    else:
        reply = await client.post("/rag/ingest/upload", files={"file": ("broken.pdf", b"%PDF-1.7 nothing")})
        id_ = reply.json()["details"]["documentId"]

    assert (await client.get(f"/rag/documents/{id_}")).json()["state"] == state
    assert (await client.get(f"/rag/documents/{id_}/chunks")).json() == {"items": [], "nextCursor": None}
    problem(await client.get(f"/rag/documents/{id_}/text"), 404, "NO_TEXT")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "cursor=%00", "cursor=AAAA", "status=none", "cursor=kg"]
)
async def test_a_bad_list_is_a_400(client: httpx.AsyncClient, query: str) -> None:
    assert problem(await client.get(f"/rag/documents?{query}"), 400).startswith(query.partition("=")[0])


# Search


async def test_a_hit_says_where_it_stands(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, tags=["x"], metadata={"shelf": {"row": 3}, "tenant": "other"})

    [hit] = (await client.post("/api/rag/search", json={"query": "When is the lantern lit?"})).json()["results"]

    assert hit["text"] == LANTERN
    assert 0 <= hit["score"] <= 1
    metadata = hit["metadata"]
    assert (metadata["documentId"], metadata["source"], metadata["path"]) == (id_, "s", "lantern.md")
    assert (metadata["tags"], metadata["shelf"]) == (["x"], {"row": 3})
    assert metadata["chunkId"]
    assert "tenant" not in metadata


async def test_filters_restrict(client: httpx.AsyncClient) -> None:
    lantern = await ingested(client, LANTERN, path="a", tags=["x", "y"], metadata={"year": 1900, "größe": "L"})
    herons = await ingested(client, HERONS, path="b", tags=["y"], source="other")

    async def found(filters: dict[str, Any] | None) -> set[str]:
        reply = await client.post("/rag/search", json={"query": "lantern herons", "filters": filters})
        assert reply.status_code == 200, reply.text
        return {hit["metadata"]["documentId"] for hit in reply.json()["results"]}

    assert await found(None) == await found({}) == {lantern, herons}
    assert await found({"source": "other"}) == await found({"source": ["other", "none"]}) == {herons}
    assert await found({"tags": ["x", "none"]}) == await found({"tagsAll": ["x", "y"]}) == {lantern}
    assert await found({"tags": ["y"]}) == {lantern, herons}
    assert await found({"documentIds": [herons]}) == {herons}
    assert await found({"year": 1900}) == await found({"year": [1900, 2000], "größe": "L"}) == {lantern}
    assert await found({"tags": []}) == await found({"documentIds": []}) == await found({"source": []}) == set()
    assert await found({"year": "1900"}) == await found({"nothing": "like this"}) == set()


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"query": "x", "filters": {"source": {"$ne": "s"}}}, 422, "filters.source: unknown filter operator '$ne'"),
        ({"query": "x", "filters": {"tenant": "t1"}}, 400, "filters.tenant: the tenant comes from the API key"),
        ({"query": "x", "filters": {"a": None}}, 400, "filters.a: null"),
        ({"query": "x", "filters": [1]}, 400, "filters:"),
        ({"query": "x", "filters": "[1]"}, 400, "filters:"),
        ({"query": "x", "topK": 0}, 400, "topK:"),
        ({"query": "x", "topK": 1001}, 400, "topK:"),
        ({"query": "x", "topK": "many"}, 400, "topK:"),
        ({"query": "x", "mode": "magic"}, 400, "mode:"),
        ({"query": ""}, 400, "query:"),
        ({"query": "\t\n"}, 400, "query:"),
        ({"query": ["x"]}, 400, "query:"),
        ({}, 400, "query:"),
    ],
)
async def test_a_bad_search_says_what_is_wrong(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, said: str
) -> None:
    assert problem(await client.post("/rag/search", json=body), status).startswith(said)


@pytest.mark.feature(149, 151)
async def test_modes_and_explanations(client: httpx.AsyncClient) -> None:
    for path, text in (("a", LANTERN), ("b", HERONS), ("c", "A boat.")):
        await ingested(client, text, path=path)

    async def search(**how: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await client.post("/rag/search", json={"query": "lantern oil", **how})).json()
        return found

    hybrid, dense, sparse = [await search(mode=mode, explain=True) for mode in ("hybrid", "dense", "sparse")]
    plain = await search()

    best = hybrid["results"][0]
    assert best["metadata"]["path"] == "a"
    assert best["explain"].keys() == {"cosine", "bm25", "ranks", "fused", "coverage"}
    assert best["explain"]["ranks"] == {"dense": 1, "sparse": 1}
    assert [hit["metadata"]["path"] for hit in sparse["results"]] == ["a"]
    assert len(dense["results"]) == 3
    assert hybrid["timings"].keys() == {"embedMs", "storeMs", "fuseMs"}
    assert plain.keys() == {"results"}
    assert plain["results"][0].keys() == {"text", "score", "metadata"}


@pytest.mark.parametrize(
    "query",
    [
        "herons",
        "苍鹭",
        "サギの巣",
        "the",
        "???",
        '"open',
        "a AND",
        "title:x",
        "-",
        "(.*)+$",
        "a\x00b",
        "\u202e",
        "{{7*7}}",
        "1 OR 1=1",
        "👩‍👩‍👧",
        "x" * 20_000,
        "( " * 5_000,
        "null",
        "'; DROP TABLE points;--",
    ],
    ids=lambda query: query[:8].encode("unicode_escape").decode(),
)
async def test_any_words_may_be_searched_for(client: httpx.AsyncClient, query: str) -> None:
    await ingested(client, HERONS)

    reply = await client.post("/rag/search", json={"query": query})

    assert reply.status_code == 200, reply.text
    assert len(reply.json()["results"]) == 1


# Tenants and keys


@pytest.mark.feature(4)
async def test_another_tenants_document_is_as_unknown_as_none(
    app: Litestar, client: httpx.AsyncClient, tenants: Iterator[str]
) -> None:
    id_ = await ingested(client)
    unknown = document_id("nobody", "no", "thing")

    async with a_client(app, next(tenants)) as stranger:
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/chunks"), ("GET", "/text")):
            foreign = await stranger.request(method, f"/rag/documents/{id_}{path}")
            missing = await stranger.request(method, f"/rag/documents/{unknown}{path}")
            assert foreign.status_code == 404
            assert foreign.json() | {"instance": ""} == missing.json() | {"instance": ""}
        found, nothing = [
            await stranger.post("/rag/search", json={"query": "lantern", "filters": {"documentIds": [each]}})
            for each in (id_, unknown)
        ]
        listed = await stranger.get("/rag/documents")
        asked = await stranger.post("/rag/query", json={"question": "lantern?", "documentIds": [id_]})
        # The same names are another document.
        own = await ingested(stranger, HERONS)

    assert found.json() == {"results": [], "warnings": [f"filters: there is no document {id_!r}"]}
    assert found.text.replace(id_, unknown) == nothing.text
    assert listed.json()["items"] == []
    problem(asked, 404)
    assert own != id_
    assert (await client.get(f"/rag/documents/{id_}")).json()["status"] == "created"


async def test_ids_that_are_none_are_unknown(client: httpx.AsyncClient) -> None:
    for id_ in ("x", "%00", document_id("a", "b", "c").upper(), "..%2f..", "{}"):
        problem(await client.get(f"/rag/documents/{id_}"), 404)


@pytest.mark.feature(59, 200)
async def test_keys_open_doors_by_role(app: Litestar) -> None:
    body = {"source": "s", "path": "p", "text": "t"}
    async with a_client(app) as client:
        nobody = await client.post("/rag/search", json={"query": "x"})
        wrong = await client.post("/rag/search", json={"query": "x"}, headers={"X-API-Key": "wrong"})
        reader = await client.post("/rag/ingest", json=body, headers={"X-API-Key": "key-reader"})
        writer = await client.post("/rag/search", json={"query": "x"}, headers={"X-API-Key": "key-writer"})
        admin = await client.post("/rag/search", json={"query": "x"}, headers={"X-API-Key": "key-admin"})
        unread = await client.post("/rag/ingest", content=b"{", headers={"X-API-Key": "key-reader"})

    problem(nobody, 401, "UNAUTHENTICATED")
    problem(wrong, 401)
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert "ingest" in problem(reader, 403, "FORBIDDEN")
    assert "query" in problem(writer, 403)
    problem(unread, 403)
    assert admin.status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/"])
@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_probes_need_no_key(app: Litestar, prefix: str, path: str) -> None:
    async with a_client(app) as client:
        assert (await client.get(prefix + path)).status_code == 200


@CI_ONLY
async def test_a_key_that_can_be_guessed_is_warned_of_at_the_start(tmp_path: Path) -> None:
    keys = SecretStr(f"my-key-of-acme:acme:query,{'k' * SHORT_KEY}:acme:query")

    with capture_logs() as logged:
        async with AsyncExitStack() as stack:
            await start(Settings(data=tmp_path, samples="off", api_keys=keys), stack)

    warned = [(each["entry"], each["tenant"]) for each in logged if each["event"] == "short_api_key"]
    assert warned == [(1, "acme")]
    assert "my-key-of-acme" not in str(logged)


@pytest.mark.parametrize("path", ["/openapi.json", "/tools/openapi.json"])
@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_any_key_reads_the_description_of_the_routes(app: Litestar, prefix: str, path: str) -> None:
    async with a_client(app) as client:
        stranger = await client.get(prefix + path)
        writer = await client.get(prefix + path, headers={"X-API-Key": "key-writer"})

    problem(stranger, 401)
    assert writer.status_code == 200


@pytest.mark.feature(253)
async def test_documents_count_for_their_tenant_and_a_batch_by_its_items(
    parts: ApiParts, tenants: Iterator[str]
) -> None:
    app = an_app(parts, settings=parts.settings.model_copy(update={"tenant_documents": 3}))
    items = [{"source": "s", "path": str(number), "text": HERONS} for number in range(4)]

    async with a_client(app, next(tenants)) as one, a_client(app, next(tenants)) as other:
        batch = await one.post("/rag/ingest/batch", json=items)
        refused = await one.post("/rag/ingest", json=items[0])
        asked = await one.post("/rag/search", json={"query": "herons"})
        taken = await other.post("/rag/ingest", json=items[0])

    assert (batch.status_code, batch.json()["taken"]) == (202, 4)  # it began within the limit
    assert "SLUICE_TENANT_DOCUMENTS" in problem(refused, 429)
    assert int(refused.headers["retry-after"]) > 1
    assert [asked.status_code, taken.status_code] == [200, 200]


async def test_metrics_are_for_operators_and_listed_networks(parts: ApiParts, app: Litestar) -> None:
    allowed = an_app(parts, settings=parts.settings.model_copy(update={"metrics_allow": "10.0.0.0/8,127.0.0.0/8"}))
    other = an_app(parts, settings=parts.settings.model_copy(update={"metrics_allow": "10.0.0.0/8"}))

    async with a_client(app) as client:
        stranger = await client.get("/metrics")
        admin = await client.get("/metrics", headers={"X-API-Key": "key-admin"})
        operator = await client.get("/metrics", headers={"X-API-Key": "key-operator"})
    async with a_client(allowed) as client:
        neighbour = await client.get("/metrics")
    async with a_client(other) as client:
        foreigner = await client.get("/metrics")

    problem(stranger, 401)
    problem(admin, 403)
    problem(foreigner, 401)
    assert [operator.status_code, neighbour.status_code] == [200, 200]


async def test_a_proxy_that_is_not_listed_opens_no_metrics(parts: ApiParts) -> None:
    allowed = an_app(parts, settings=parts.settings.model_copy(update={"metrics_allow": "127.0.0.0/8"}))

    async with a_client(allowed) as client:
        passed_on = await client.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1, 203.0.113.7"})

    problem(passed_on, 401)


# Chat


@pytest.mark.feature(163, 164, 165, 167, 168, 169, 174)
async def test_chat_answers_from_documents_in_the_contracts_shape(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, tags=["light"])
    body = {"message": "When is the lantern on the pier lit?", "useRag": "true", "ragTopK": "3", "target": "extractive"}

    reply = await client.post("/api/chat", json=body | {"ragFilters": {"tags": ["light"]}, "conversationId": "c7"})

    told = reply.json()
    assert (reply.status_code, told["status"], told["conversationId"]) == (200, "success", "c7")
    assert told["data"].keys() == {"model", "created_at", "message", "done", "done_reason", "total_duration"}
    assert told["data"]["message"] == {"role": "assistant", "content": told["response"]}
    assert (told["data"]["model"], told["data"]["done"]) == ("extractive", True)
    assert "six in the evening" in told["response"]
    assert "[1]" in told["response"]
    [source] = told["ragSources"]
    assert told["ragUsed"] is True
    assert (source["documentId"], source["metadata"]["title"]) == (id_, "Lantern")
    assert source.keys() == {"documentId", "chunkId", "score", "metadata"}
    assert [(each["document"], each["documentId"]) for each in told["sources"]] == [("Lantern", id_)]
    assert told["sources"][0]["chunk"] in LANTERN


@pytest.mark.feature(198)
async def test_nothing_found_is_said_honestly(client: httpx.AsyncClient) -> None:
    reply = await client.post("/chat", json={"message": "When is it lit?", "useRag": True})

    told = reply.json()
    assert (reply.status_code, told["ragUsed"], told["ragSources"], told["sources"]) == (200, False, [], [])
    assert "nothing" in told["response"]
    assert told["conversationId"]


@pytest.mark.feature(41)
@pytest.mark.feature(171)
async def test_the_last_of_the_messages_is_the_question(client: httpx.AsyncClient) -> None:
    await ingested(client)
    messages = [
        {"role": "user", "content": "Tell me of herons."},
        {"role": "assistant", "content": "I know nothing of them."},
        {"role": "user", "content": "When is the lantern lit?", "timestamp": 1},
    ]

    reply = await client.post("/chat", json={"messages": messages, "useRag": True})

    assert "six in the evening" in reply.json()["response"]


async def test_plain_chat_needs_a_model(client: httpx.AsyncClient) -> None:
    assert "SLUICE_CHAT" in problem(await client.post("/chat", json={"message": "Hello"}), 501, "NO_MODEL")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"useRag": True}, "message:"),
        ({"message": " ", "useRag": True}, "message:"),
        ({"messages": [], "useRag": True}, "message:"),
        ({"messages": [{"role": "assistant", "content": "x"}], "useRag": True}, "message:"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role:"),
        ({"message": "x", "useRag": "maybe"}, "useRag:"),
        ({"message": "x", "useRag": True, "ragTopK": 0}, "ragTopK:"),
        ({"message": "x", "useRag": True, "target": "http://169.254.169.254"}, "target:"),
        ({"message": "x", "useRag": True, "ragFilters": {"source": {"$gt": ""}}}, "ragFilters.source:"),
    ],
)
async def test_a_bad_chat_says_what_is_wrong(client: httpx.AsyncClient, body: dict[str, Any], said: str) -> None:
    reply = await client.post("/chat", json=body)

    assert reply.json()["detail"].startswith(said)
    assert reply.status_code in (400, 422)


@pytest.mark.feature(182)
async def test_a_streamed_chat_ends_with_the_whole_reply(client: httpx.AsyncClient) -> None:
    await ingested(client)
    body = {"message": "When is the lantern lit?", "useRag": True, "stream": True}

    reply = await client.post("/chat", json=body)

    (first, sources), *tokens, (last, done) = events(reply.text)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert (first, last, {name for name, _ in tokens}) == ("sources", "done", {"token"})
    assert "".join(data["content"] for _, data in tokens) == done["response"]
    assert sources["ragSources"] == done["ragSources"]
    assert sources["conversationId"] == done["conversationId"]


@pytest_asyncio.fixture(loop_scope="session")
async def ollama() -> AsyncIterator[FakeOllama]:
    async with fake_ollama() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def model_client(parts: ApiParts, ollama: FakeOllama, tenants: Iterator[str]) -> AsyncIterator[httpx.AsyncClient]:
    answers = OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5)
    async with a_client(an_app(parts, models=models_of(answers)), next(tenants)) as client:
        yield client


@pytest.mark.feature(170, 173)
async def test_a_model_chats_without_documents_as_before(model_client: httpx.AsyncClient, ollama: FakeOllama) -> None:
    await ingested(model_client)
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good evening"}]
    body = {"message": "How are you?", "system": "Be brief.", "conversationHistory": history}

    told = (await model_client.post("/chat", json=body)).json()

    [asked] = ollama.bodies("/api/chat")
    assert (told["response"], told["ragUsed"], told["ragSources"]) == (ollama.reply, False, [])
    assert [(turn["role"], turn["content"]) for turn in asked["messages"]] == [
        ("system", "Be brief."),
        *((turn["role"], turn["content"]) for turn in history),
        ("user", "How are you?"),
    ]


@pytest.mark.parametrize(
    ("setting", "body", "documents", "warned"),
    sampled(
        [
            ("", {}, False, True),
            ("", {"useRag": False}, False, False),
            ("", {"useRag": True}, True, False),
            ("off", {}, False, False),
            ("on", {}, True, False),
            ("on", {"useRag": None}, True, False),
            ("on", {"useRag": False}, False, False),
        ]
    ),
)
async def test_a_chat_that_does_not_say_so_is_answered_as_the_setting_says(
    parts: ApiParts,
    ollama: FakeOllama,
    tenants: Iterator[str],
    setting: str,
    body: dict[str, Any],
    documents: bool,
    warned: bool,
) -> None:
    settings = parts.settings.model_copy(update={"chat_rag": setting})
    models = models_of(OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5))
    asked = {"message": "When is the lantern lit?", "conversationHistory": [], **body}
    async with a_client(an_app(parts, models=models, settings=settings), next(tenants)) as client:
        await ingested(client, LANTERN)
        told = (await client.post("/chat", json=asked)).json()
        streamed = events((await client.post("/chat", json={**asked, "stream": True})).text)

    assert told["ragUsed"] is documents
    for reply in (told, streamed[-1][1]):
        assert any("answered without documents" in each for each in reply.get("warnings", ())) is warned


@pytest.mark.feature(172, 178, 185)
async def test_a_model_sees_the_passages_and_cites_them(model_client: httpx.AsyncClient, ollama: FakeOllama) -> None:
    id_ = await ingested(model_client)

    told = (await model_client.post("/chat", json={"message": "When is it lit?", "useRag": True})).json()
    asked = await model_client.post("/rag/query", json={"question": "When is it lit?", "documentIds": [id_]})

    prompt = ollama.bodies("/api/chat")[0]["messages"][-1]["content"]
    assert "[CONTEXT START]" in prompt
    assert "six in the evening" in prompt
    assert (told["ragUsed"], told["data"]["model"]) == (True, CHAT_MODEL)
    assert [citation["docId"] for citation in asked.json()["citations"]] == [id_]


@CI_ONLY
@pytest.mark.feature(197, 207)
async def test_a_model_that_fails_is_asked_once_more_and_then_it_is_a_503(
    model_client: httpx.AsyncClient, ollama: FakeOllama
) -> None:
    id_ = await ingested(model_client)
    ollama.fault = "500"

    failed = await model_client.post("/chat", json={"message": "Hello"})
    tries = len(ollama.bodies("/api/chat"))
    asked = await model_client.post("/rag/query", json={"question": "lantern?", "documentIds": [id_]})
    ollama.fault = "undone"
    streamed = await model_client.post("/chat", json={"message": "Hello", "stream": True})

    problem(failed, 503, "UNAVAILABLE")
    assert tries == 2
    problem(asked, 503, "GENERATION_FAILED")
    *_, (name, data) = events(streamed.text)
    assert (name, data["status"]) == ("error", 503)


@pytest.mark.feature(166)
async def test_a_client_chooses_among_the_configured_models(model_client: httpx.AsyncClient) -> None:
    await ingested(model_client)
    body = {"message": [{"type": "text", "text": "When is it lit?"}], "useRag": True, "user": "u1", "target": "ollama"}

    told = (await model_client.post("/chat", json=body)).json()
    chosen = (await model_client.post("/chat", json=body | {"model": f"{CHAT_MODEL}:latest"})).json()
    other = await model_client.post("/chat", json=body | {"model": "gpt-5"})

    assert told["data"]["model"] == chosen["data"]["model"] == CHAT_MODEL
    assert problem(other, 400) == f"model: 'gpt-5' is not allowed here; allowed are: {CHAT_MODEL}"


async def test_an_image_in_a_message_is_refused_and_not_passed_over(client: httpx.AsyncClient) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]

    reply = await client.post("/chat", json={"messages": [{"role": "user", "content": parts}], "useRag": True})

    assert problem(reply, 400) == "messages: has an image, and extractive only quotes documents"


async def test_citations_say_where_they_stand(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client)

    told = (await client.post("/chat", json={"message": "When is the lantern lit?", "useRag": True})).json()

    first = told["citations"][0]
    (start, end), *_ = first["spans"]
    assert told["response"][start:end] == "[1]"
    assert (first["documentId"], first["title"], first["excerpt"]) == (id_, "Lantern", told["sources"][0]["chunk"])
    assert told["references"] == ["Lantern"]


@pytest.mark.feature(253)
async def test_more_answers_than_a_key_may_have_are_a_429(parts: ApiParts, tenants: Iterator[str]) -> None:
    settings = parts.settings.model_copy(update={"chat_rate": 1})
    async with a_client(an_app(parts, settings=settings), next(tenants)) as client:
        first = await client.post("/chat", json={"message": "When is it lit?", "useRag": True})
        second = await client.post("/chat", json={"message": "When is it lit?", "useRag": True})
        searched = await client.post("/rag/search", json={"query": "lantern"})

    assert (first.status_code, searched.status_code) == (200, 200)
    problem(second, 429, "TOO_MANY_ANSWERS")
    assert 0 < int(second.headers["retry-after"]) <= 60


@pytest.mark.feature(158, 193)
async def test_a_follow_up_is_searched_with_the_terms_of_the_question_before(client: httpx.AsyncClient) -> None:
    await ingested(client)
    await ingested(client, HERONS, path="b", title="Herons")
    history = [
        {"role": "user", "content": "Where do the herons nest?"},
        {"role": "assistant", "content": "In a willow."},
    ]

    told = await client.post(
        "/chat",
        json={"message": "And when may nobody disturb them?", "conversationHistory": history, "useRag": True},
    )

    assert "before June" in told.json()["response"]


async def test_after_two_questions_a_follow_up_still_asks_for_its_own_words(client: httpx.AsyncClient) -> None:
    lease = "The landlord repairs the roof of the bakery. The landlord repairs the outer walls of the bakery."
    await ingested(client, lease, path="lease", title="Lease")
    await ingested(client, "The probation is six months. The notice is two weeks.", path="notes", title="Notes")
    history = [
        {"role": role, "content": text}
        for question in ("Who repairs the roof of the bakery?", "How long is the probation?")
        for role, text in (("user", question), ("assistant", "…"))
    ]

    told = await client.post(
        "/chat", json={"message": "And the notice?", "conversationHistory": history, "useRag": True}
    )

    assert "two weeks" in told.json()["response"]
    assert "roof" not in told.json()["response"]


async def test_quotes_of_a_chosen_document_need_no_score(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client, "# CK-40\n\n- Power: 1,450 W\n- Weight: 9.4 kg\n", contentType="text/markdown")
    body = {"question": "How heavy is it?", "documentIds": [id_]}

    heavy, gated = [
        (await client.post("/rag/query", json={**body, **gate})).json()["answer"] for gate in ({}, {"minScore": 0.9})
    ]

    assert heavy.startswith("Weight: 9.4 kg")
    assert gated.startswith("I found nothing")


@pytest.mark.feature(157)
async def test_several_documents_are_compared_under_their_titles(client: httpx.AsyncClient) -> None:
    east = await ingested(client, "The east pier opens at six in the morning.", path="e", title="East")
    west = await ingested(client, "The west pier opens at nine in the morning.", path="w", title="West")
    body = {"question": "Compare both piers: when does the pier open?", "documentIds": [east, west]}

    told = (await client.post("/rag/query", json=body)).json()

    assert told["answer"] == (
        "**East**: The east pier opens at six in the morning. [1]\n\n"
        "**West**: The west pier opens at nine in the morning. [2]"
    )
    assert [citation["docId"] for citation in told["citations"]] == [east, west]


@pytest.mark.feature(190, 191, 192)
async def test_what_the_user_prefers_reaches_the_model(model_client: httpx.AsyncClient, ollama: FakeOllama) -> None:
    wishes = {"persona": "You are a guide.", "aiStyle": "warm", "customTwist": "rhymes", "language": "Dutch"}

    await model_client.post("/chat", json={"message": "Hello", "preferences": wishes})

    system = ollama.bodies("/api/chat")[0]["messages"][0]
    assert system["role"] == "system"
    assert system["content"] == "You are a guide.\n\nAnswer in Dutch.\n\nStyle: warm; rhymes"


async def test_a_query_is_streamed_like_a_chat(client: httpx.AsyncClient) -> None:
    id_ = await ingested(client)
    body = {"question": "When is the lantern lit?", "documentIds": [id_], "stream": True}

    (first, sources), *tokens, (last, done) = events((await client.post("/rag/query", json=body)).text)

    assert (first, last) == ("sources", "done")
    assert sources["sources"] == done["sources"]
    assert "".join(data["content"] for _, data in tokens) == done["answer"]


async def test_sources_are_none_where_nothing_can_be_quoted(client: httpx.AsyncClient) -> None:
    await ingested(client)
    body = {"message": "Who painted the ceiling of the opera in Vienna?", "useRag": True, "stream": True}

    (_, sources), *_, (_, done) = events((await client.post("/chat", json=body)).text)

    assert sources["ragSources"] == done["ragSources"] == []
    assert done["ragUsed"] is False


@pytest.mark.feature(179)
async def test_where_no_passage_is_relevant_a_model_may_answer_from_general_knowledge(
    parts: ApiParts, ollama: FakeOllama, tenants: Iterator[str]
) -> None:
    settings = parts.settings.model_copy(update={"general_knowledge": "on"})
    models = models_of(OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5))
    async with a_client(an_app(parts, models=models, settings=settings), next(tenants)) as client:
        told = (await client.post("/chat", json={"message": "Why is the sky blue?", "useRag": True})).json()
    async with a_client(an_app(parts, models=models), next(tenants)) as client:
        refused = (await client.post("/chat", json={"message": "Why is the sky blue?", "useRag": True})).json()

    assert told["response"].startswith("This answer comes from general knowledge")
    assert (told["generalKnowledge"], told["ragUsed"]) == (True, False)
    assert refused["response"].startswith("I found nothing")
    assert len(ollama.bodies("/api/chat")) == 1


async def test_links_and_images_in_an_answer_from_documents_are_text_where_the_setting_says_so(
    parts: ApiParts, ollama: FakeOllama, tenants: Iterator[str]
) -> None:
    ollama.reply = "It is so [1]. ![a](https://evil.example/?q=secret)"
    models = models_of(OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5))
    inert = parts.settings.model_copy(update={"answer_links": "inert"})
    question = {"message": "When is the lantern lit?", "useRag": True}
    tenant = next(tenants)
    async with a_client(an_app(parts, models=models), tenant) as client:
        await ingested(client, LANTERN)
        kept = (await client.post("/chat", json=question)).json()
    async with a_client(an_app(parts, models=models, settings=inert), tenant) as client:
        told = (await client.post("/chat", json=question)).json()
        plain = (await client.post("/chat", json={"message": "Hello"})).json()

    assert kept["response"].split() == ollama.reply.split()
    assert told["response"].split() == ["It", "is", "so", "[1].", "![a]", "(https://evil.example/?q=secret)"]
    assert len(told["citations"]) == 1
    assert plain["response"].split()[-1] == "![a](https://evil.example/?q=secret)"  # no document had a say


@pytest.mark.feature(194)
async def test_the_next_model_answers_when_the_first_one_fails_twice(
    parts: ApiParts, ollama: FakeOllama, tenants: Iterator[str]
) -> None:
    ollama.fault = "500"
    async with fake_ollama() as other:
        models = models_of(
            OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5),
            OllamaAnswers(OllamaAddress(other.url, f"{CHAT_MODEL}:latest"), timeout_s=5),
        )
        async with a_client(an_app(parts, models=models), next(tenants)) as client:
            told = await client.post("/chat", json={"message": "Hello"})

    assert told.json()["data"]["model"] == f"{CHAT_MODEL}:latest"
    assert len(ollama.bodies("/api/chat")) == 2


class AwayIndex:
    """An index whose store is away."""

    def __init__(self, index: Index) -> None:
        self.generation = index.generation

    async def search(self, *what: object, **how: object) -> None:
        raise Unavailable("the store is away")


@pytest.mark.feature(209)
async def test_while_the_search_is_away_a_model_may_answer_without_documents(
    parts: ApiParts, ollama: FakeOllama, tenants: Iterator[str]
) -> None:
    settings = parts.settings.model_copy(update={"chat_without_store": "on"})
    models = models_of(OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=5))
    body = {"message": "When is it lit?", "useRag": True}
    away = AwayIndex(parts.index)
    async with a_client(an_app(parts, models=models, index=away, settings=settings), next(tenants)) as client:
        told = (await client.post("/chat", json=body)).json()
    async with a_client(an_app(parts, models=models, index=away), next(tenants)) as client:
        refused = await client.post("/chat", json=body)

    assert (told["response"], told["ragUsed"], told["sources"]) == (ollama.reply, False, [])
    assert told["warnings"] == ["the search is unavailable; this answer was made without the documents"]
    problem(refused, 503, "UNAVAILABLE")


# Query


@pytest.mark.feature(139, 140, 141, 186, 189)
async def test_chosen_documents_are_asked(client: httpx.AsyncClient) -> None:
    lantern = await ingested(client, path="a", metadata={"subjectId": "light"})
    herons = await ingested(client, HERONS, path="b")
    body = {"question": "When is the lantern lit?", "documentIds": [lantern, herons]}

    told = (await client.post("/api/rag/query", json=body)).json()
    subject = (await client.post("/rag/query", json=body | {"subjectId": "light"})).json()
    other = await client.post("/rag/query", json=body | {"subjectId": "none"})

    assert (told["success"], told["model"]) == (True, "extractive")
    assert "six in the evening" in told["answer"]
    assert told["chunksUsed"] == len(told["sources"])
    assert told["sources"][0].keys() == {"docId", "title", "pageNumber", "chunkId", "similarity"}
    assert {citation["docId"] for citation in told["citations"]} <= {source["docId"] for source in told["sources"]}
    assert told["citations"][0]["docId"] == lantern
    assert {source["docId"] for source in subject["sources"]} == {lantern}
    assert (other.status_code, other.json()["success"], other.json()["sources"]) == (200, True, [])


@pytest.mark.feature(206)
@pytest.mark.feature(195, 196)
async def test_a_query_needs_documents_that_are_ready(parts: ApiParts, unread: Publish, tenants: Iterator[str]) -> None:
    async with a_client(an_app(parts, publish=unread), next(tenants)) as client:
        none = await client.post("/rag/query", json={"question": "x", "documentIds": []})
        missing = await client.post("/rag/query", json={"question": "x"})
        body = {"source": "s", "path": "p", "text": HERONS}
        accepted = await client.post("/rag/ingest", json=body, headers={"Prefer": "respond-async"})
        id_ = accepted.json()["documentId"]
        shown = await client.get(accepted.headers["location"])
        early = await client.post("/rag/query", json={"question": "x", "documentIds": [id_]})

    problem(none, 400, "NO_DOCUMENTS")
    problem(missing, 400, "NO_DOCUMENTS")
    assert (accepted.status_code, shown.json()["status"], shown.json()["chunkCount"]) == (202, "accepted", 0)
    assert id_ in problem(early, 409, "PROCESSING_INCOMPLETE")


@CI_ONLY
async def test_a_stopping_server_lets_nobody_wait(parts: ApiParts, unread: Publish, tenants: Iterator[str]) -> None:
    notices = StatusWaiters()
    body = {"source": "s", "path": "p", "text": HERONS}

    async with a_client(an_app(parts, publish=unread, notices=notices), next(tenants)) as client:
        waiting = asyncio.create_task(client.post("/rag/ingest", json=body, headers={"Prefer": "wait=300"}))
        notices.close()  # before or after it waits: both end it

        assert (await waiting).status_code == 202


# Outages


@pytest.mark.feature(203)
async def test_a_log_that_is_away_is_a_503_that_says_to_send_again(
    parts: ApiParts, tenants: Iterator[str], tmp_path: Path
) -> None:
    unreachable = partial(publish, SqliteLog(tmp_path / "log").broker("never started"))

    async with a_client(an_app(parts, publish=unreachable), next(tenants)) as client:
        reply = await client.post("/rag/ingest", json={"source": "s", "path": "p", "text": "t"})

    assert "sending the document again is safe" in problem(reply, 503, "UNAVAILABLE")
    assert int(reply.headers["retry-after"]) > 0


async def test_a_blob_store_that_is_away_is_a_503_and_small_documents_go_on(
    parts: ApiParts, tenants: Iterator[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"in the way")

    async with a_client(an_app(parts, blobs=FileBlobs(tmp_path / "file")), next(tenants)) as client:
        large = await client.post("/rag/ingest", json={"source": "s", "path": "p", "text": HERONS * 4000})
        small = await client.post("/rag/ingest", json={"source": "s", "path": "p", "text": HERONS})

    problem(large, 503, "UNAVAILABLE")
    assert small.json()["status"] == "created"


async def test_what_is_wrong_is_told_by_readyz(parts: ApiParts, app: Litestar) -> None:
    async def troubled() -> dict[str, str | None]:
        return {"log": None, "store": "the store is away"}

    async with a_client(app) as client:
        well = await client.get("/readyz")
    async with a_client(an_app(parts, readiness=troubled)) as client:
        ill = await client.get("/readyz", headers={"X-API-Key": "key-reader"})
        strangers = [await client.get("/readyz", headers=headers) for headers in ({}, {"X-API-Key": "wrong-key"})]

    assert (well.status_code, well.json()) == (200, {"status": "ready"})
    assert (ill.status_code, ill.json()["status"]) == (503, "not ready")
    assert ill.json()["checks"]["store"] == "the store is away"
    assert [(reply.status_code, reply.json()) for reply in strangers] == [(503, {"status": "not ready"})] * 2


@pytest.mark.feature(202)
@pytest.mark.feature(210)
async def test_a_bug_is_a_500_without_its_inside_which_the_log_has(parts: ApiParts, tenants: Iterator[str]) -> None:
    class Buggy:
        name, needs_passages = "buggy", False

        async def context(self) -> int:
            return CONTEXT

        async def stream(self, conversation: Conversation) -> AsyncIterator[str]:
            yield "almost"
            raise ZeroDivisionError("secret inside")

    async with a_client(an_app(parts, models=models_of(Buggy())), next(tenants)) as client:
        with capture_logs() as logged:
            reply = await client.post("/chat", json={"message": "x"})
        streamed = await client.post("/chat", json={"message": "x", "stream": True})

    problem(reply, 500, "BUG")
    [failure] = [line for line in logged if line["event"] == "request_failed"]
    assert repr(failure["exc_info"]) == "ZeroDivisionError('secret inside')"
    assert failure["path"] == "/chat"
    assert "secret" not in reply.text + streamed.text
    assert events(streamed.text)[-1][0] == "error"


async def test_what_counters_tell_has_no_line_for_each_document_or_request(client: httpx.AsyncClient) -> None:
    """A line costs 80 µs: four of them for each document were 7 % of a load."""
    with capture_logs() as logged:
        await client.post("/rag/ingest", json={"source": "quiet", "path": "lantern.md", "text": LANTERN})
        await client.post("/rag/search", json={"query": "lantern"})
        refused = await client.post("/rag/ingest", json={"source": "quiet", "path": "none.md"})

    shown = [line for line in logged if line["log_level"] != "debug" and line["event"] != "parser_started"]
    assert [(line["event"], line["status"]) for line in shown] == [("request", refused.status_code)]
    assert {"submission_accepted", "version_accepted", "version_ended"} <= {line["event"] for line in logged}


# Manners


async def test_unknown_routes_and_methods(client: httpx.AsyncClient) -> None:
    assert "/nowhere" in problem(await client.get("/nowhere"), 404, "NOT_FOUND")
    wrong = await client.patch("/rag/documents")
    problem(wrong, 405)
    assert wrong.headers["allow"] == ", ".join(sorted(wrong.headers["allow"].split(", ")))
    assert {"DELETE", "GET"} <= {*wrong.headers["allow"].split(", ")}


async def test_head_is_answered_wherever_get_is(client: httpx.AsyncClient) -> None:
    """Monitors and load balancers ask so, and clients whether a server is there."""
    paths = {
        min(handler.paths)
        for handler in ROUTES
        if "GET" in handler.http_methods and handler.opt["lane"] != "watch" and "{" not in min(handler.paths)
    }
    for path in sorted({*paths, "/", "/livez", "/readyz", "/metrics", "/openapi.json", "/api/tags", "/nowhere"}):
        asked, read = await client.head(path), await client.get(path)
        assert (asked.status_code, asked.content) == (read.status_code, b""), path
        assert asked.headers["content-type"] == read.headers["content-type"], path


async def test_below_api_a_reply_is_the_same_and_names_the_path_that_was_asked(client: httpx.AsyncClient) -> None:
    for method, path in (
        ("GET", "/rag/documents/none"),
        ("GET", "/rag/documents/a/api/b"),
        ("GET", "/rag/documents/api%2Fx"),
        ("PATCH", "/rag/documents"),
        ("POST", "/retrieval"),
    ):
        above, below = [await client.request(method, prefix + path) for prefix in ("", "/api")]
        assert (below.status_code, below.json()["code"]) == (above.status_code, above.json()["code"]), path
        assert (above.json()["instance"], below.json()["instance"]) == (path, f"/api{path}")
        assert above.json().keys() == below.json().keys(), path
    assert (await client.get("/v1/nowhere")).json().keys() == (await client.get("/api/v1/nowhere")).json().keys()
    for path in ("/apinowhere", "/apirag/documents", "/tags", "/api/api/rag/documents"):
        assert path in problem(await client.get(path), 404, "NOT_FOUND")
    assert (await client.get("/api")).text == (await client.get("/api/")).text == (await client.get("/")).text


async def test_a_client_that_lists_only_json_gets_json(client: httpx.AsyncClient) -> None:
    reply = await client.post("/rag/search", json={}, headers={"Accept": "application/json,text/*;q=0.9"})

    assert (reply.status_code, reply.headers["content-type"]) == (400, "application/json")
    assert reply.json()["detail"] == "query: is required"


async def test_the_request_id_goes_in_and_out(client: httpx.AsyncClient) -> None:
    given = await client.get("/livez", headers={"X-Request-Id": "abc-1"})
    forged = await client.get("/livez", headers={"X-Request-Id": "a b\tc"})
    nowhere = await client.get("/nowhere", headers={"X-Request-Id": "abc-2"})

    assert given.headers["x-request-id"] == "abc-1"
    assert nowhere.headers["x-request-id"] == "abc-2"
    assert len(forged.headers["x-request-id"]) == 32


async def test_metrics_count_what_happened(parts: ApiParts, tenants: Iterator[str]) -> None:
    client = a_client(an_app(parts), next(tenants))
    wanted = {
        'sluice_requests_total{method="POST",route="/rag/search",status="200"}': 2.0,
        'sluice_requests_total{method="GET",route="unmatched",status="404"}': 1.0,
        "sluice_empty_searches_total": 1.0,
        'sluice_search_seconds_count{mode="hybrid"}': 2.0,
        'sluice_reply_seconds_count{route="/rag/search"}': 2.0,
        'sluice_ingests_total{status="created"}': 1.0,
    }

    async def counted() -> dict[str, float]:
        text = (await client.get("/metrics", headers={"Authorization": "Bearer key-operator"})).text
        lines = (line.rpartition(" ") for line in text.splitlines())
        return dict.fromkeys(wanted, 0.0) | {name: float(value) for name, _, value in lines if name in wanted}

    before = await counted()  # other tests count in the same process
    await client.post("/rag/search", json={"query": "nothing there"})
    await ingested(client)
    await client.post("/rag/search", json={"query": "lantern"})
    await client.get("/nowhere/at/all")
    after = await counted()

    assert {name: after[name] - before[name] for name in wanted} == wanted


async def test_the_schema_names_every_route_once(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()

    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    names = {operation["operationId"] for operation in operations}
    assert len(names) == len(operations)
    assert {"rag_ingest", "rag_ingest_upload", "rag_search", "rag_query", "chat", "rag_documents", "ops_erase"} <= names
    assert all(operation["description"] for operation in operations)
    upload = schema["paths"]["/rag/ingest/upload"]["post"]["requestBody"]["content"]
    assert "multipart/form-data" in upload
    assert schema["components"]["schemas"]["SearchBody"]["properties"]["topK"]["maximum"] == 1000
    removal = schema["paths"]["/rag/documents"]["delete"]
    assert [each["name"] for each in removal["parameters"]] == ["source", "path", "tags", "all", "confirm", "cursor"]
    assert removal["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/DeleteSelection")
    body = schema["components"]["schemas"]["DeleteSelection"]
    assert [*body["properties"]] == ["filters", "all", "confirm", "cursor"]
    ollamas = {"chat", "version", "tags", "ps", "pull", "show", "generate", "embed", "embeddings"}
    assert {path for path in schema["paths"] if path.startswith("/api")} == {f"/api/{name}" for name in ollamas}


@pytest_asyncio.fixture(loop_scope="session")
async def served(app: Litestar) -> AsyncIterator[Callable[[bytes], Awaitable[bytes]]]:
    """Return what sends raw bytes to a real server and gives back the head of its answer."""
    async with listening(app) as address:

        async def send(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(data)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            return answer

        yield send


async def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(
    served: Callable[[bytes], Awaitable[bytes]],
) -> None:
    announced = raw("/rag/ingest", "Content-Type: application/json", f"Content-Length: {MAX_BODY + 1}")

    # Nothing follows the headers, so only a server that doesn't read answers.
    assert (await served(announced)).startswith(b"HTTP/1.1 413")


async def test_a_chunked_body_is_refused_at_the_limit(served: Callable[[bytes], Awaitable[bytes]]) -> None:
    head = raw("/rag/ingest/upload", "Content-Type: text/plain", "Transfer-Encoding: chunked")
    piece = b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n"

    # The body never ends.
    assert (await served(head + piece * (MAX_BODY // 65_536 + 2))).startswith(b"HTTP/1.1 413")


async def test_two_content_types_are_refused(served: Callable[[bytes], Awaitable[bytes]]) -> None:
    head = raw("/rag/search", "Content-Type: application/json", "Content-Type: text/plain", "Content-Length: 2")

    assert (await served(head + b"{}")).startswith(b"HTTP/1.1 400")


async def test_a_client_that_leaves_stops_the_model(parts: ApiParts, ollama: FakeOllama) -> None:
    ollama.fault = "stall"
    answers = OllamaAnswers(OllamaAddress(ollama.url, CHAT_MODEL), timeout_s=50)
    body = json.dumps({"message": "Hello", "stream": True}).encode()
    head = raw("/chat", "Content-Type: application/json", f"Content-Length: {len(body)}")

    async with listening(an_app(parts, models=models_of(answers))) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(head + body)
        await reader.readuntil(b"event: token")
        writer.close()

        async with asyncio.timeout(60):
            await ollama.left.wait()


def declared(app: Litestar) -> Iterator[tuple[str, HTTPRouteHandler | ASGIRouteHandler]]:
    """Yield every route by method and path."""
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if handler.http_methods != {"OPTIONS"}:
                    yield f"{min(handler.http_methods)} {route.path}", handler
        elif isinstance(route, ASGIRoute):
            yield f"* {route.path}", route.route_handler


async def test_every_route_declares_its_role_or_is_open(app: Litestar) -> None:
    missing = [name for name, handler in declared(app) if not handler.opt.get(OPEN) and ROUTE_ROLES not in handler.opt]

    assert missing == [], "declare its role, or that it is open"


async def test_every_route_that_needs_a_key_declares_its_lane(app: Litestar) -> None:
    missing = [
        name
        for name, handler in declared(app)
        if isinstance(handler, HTTPRouteHandler) and not handler.opt.get(OPEN) and "lane" not in handler.opt
    ]

    assert missing == []


async def test_every_operation_that_changes_something_takes_json_only(app: Litestar) -> None:
    missing = [
        name
        for name, handler in declared(app)
        if "/ops/" in name and not name.startswith("GET ") and not handler.opt.get("json_only")
    ]

    assert missing == [], "declare json_only"
