"""Requests as the HTTP Request node of n8n 2.8.4 sends them, and those of the workflows in deploy/n8n."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
from litestar import Litestar

from services.query_api.app import make_api
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY
from tests.unit.deploy.n8n import calls

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Nobody sets these: every request has them.
ALWAYS = {
    "Accept": "application/json,text/html,application/xhtml+xml,application/xml,text/*;q=0.9, image/*;q=0.8, */*;q=0.7",
    "User-Agent": "axios/1.12.0",
    "Accept-Encoding": "gzip, compress, deflate, br",
    "Connection": "close",
}
FORM = "application/x-www-form-urlencoded"
BOUNDARY = "--------------------------507b7db372ba8cce3a29bcf1"
UPLOAD = "/rag/ingest/upload"
TEXT = "# Hello\n\nBody with ünïcode."


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(tmp_path_factory.mktemp("n8n")) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def app(pipeline: Pipeline) -> Litestar:
    return make_api(pipeline.parts)


@pytest_asyncio.fixture(loop_scope="session")
async def n8n(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    # Litestar's types of the same protocol are narrower than httpx's.
    transport = httpx.ASGITransport(cast("Any", app))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=ALWAYS, timeout=60
    ) as client:
        yield client


def as_json(**fields: Any) -> dict[str, Any]:
    return {
        "content": json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(),
        "headers": {"Content-Type": "application/json"},
    }


def as_form(body: str) -> dict[str, Any]:
    return {"content": body.encode(), "headers": {"Content-Type": FORM}}


def as_multipart(*parts: tuple[str, str | None, str | None, str]) -> dict[str, Any]:
    """Return a body of parts, each a field's name, its file name, its type, and what it holds."""
    written = ""
    for name, filename, kind, value in parts:
        disposition = f'name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
        declared = f"Content-Type: {kind}\r\n" if kind else ""
        written += f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{declared}\r\n{value}\r\n"
    return {
        "content": f"{written}--{BOUNDARY}--\r\n".encode(),
        "headers": {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
    }


def as_bytes(content: bytes, kind: str, **query: str) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}, "params": query}


def with_headers(request: Mapping[str, Any], **more: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {**request, "headers": {**request["headers"], **named}}


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "JSON": ("/rag/ingest", as_json(source="n8n", path="guides/hello.md", title="Hello", text=TEXT, tags=["demo"])),
    "JSON with headers of the user": (
        "/rag/ingest",
        with_headers(as_json(source="n8n", path="key.md", text=TEXT), idempotency_key="n8n/key.md", x_api_key="demo"),
    ),
    "JSON with a stored credential": (
        "/rag/ingest",
        with_headers(as_json(source="n8n", path="bearer.md", text=TEXT), authorization="Bearer example-api-key"),
    ),
    "JSON by fields, numbers as strings": (
        "/rag/ingest",
        as_json(source="n8n", path="fields.md", text="t", tags=["a", "b"], metadata={"k": 1}, topK="5"),
    ),
    "JSON by fields, nothing where there is nothing": (
        "/rag/ingest",
        as_json(source="n8n", path="null.md", text="t", title=None, tags=[], metadata=None, hash=None),
    ),
    "JSON by fields, lists and objects as strings": (
        "/rag/ingest",
        as_json(source="n8n", path="strings.md", text="t", tags="a,b", metadata='{"k":1}'),
    ),
    "JSON by fields, numbers where texts are meant, blanks at the ends": (
        "/rag/ingest",
        as_json(source=" n8n ", path=123, title=2026, text="t", tags=[1, "b"], chunkSize=""),
    ),
    "a form": ("/rag/ingest", as_form("source=n8n&path=form.md&text=t%20%26%20u")),
    "a form with lists": (
        "/rag/ingest",
        as_form("source=n8n&path=form2.md&text=t&tags%5B%5D=a&tags%5B%5D=b&metadata=%7B%22k%22%3A1%7D"),
    ),
    "a text without a name": ("/rag/ingest/text", as_json(title="A title", text="t")),
    "a text as a form": ("/rag/ingest/text", as_form("text=only+this")),
    "a file with fields": (
        UPLOAD,
        as_multipart(
            ("file", "hello.md", "text/plain", "# Hi from a file"),
            ("source", None, None, "n8n-files"),
            ("path", None, None, "hello.md"),
            ("tags", None, None, "a"),
            ("tags", None, None, "b"),
            ("metadata", None, None, '{"lang":"en"}'),
        ),
    ),
    "a file under an odd name, fields first": (
        UPLOAD,
        as_multipart(("tags[]", None, None, "a"), ("=attachment_0 data", "ü (1).md", "text/markdown", "# Odd")),
    ),
    "a file without a type": (UPLOAD, as_multipart(("data", "typeless", None, "No type."))),
    "two files": (
        UPLOAD,
        as_multipart(
            ("data0", "one.md", "text/markdown", "# One"),
            ("data1", "two.html", "text/html", "<p>Two.</p>"),
        ),
    ),
    "a raw file": (UPLOAD, as_bytes(b"# Hi raw", "text/plain", source="n8n-files", path="raw.md", tags="b")),
    "a raw file with several tags": (
        UPLOAD,
        as_bytes(b"# Hi tags", "text/plain", source="n8n-files", path="tags.md", tags="a,b"),
    ),
    "a raw file that nothing names": (UPLOAD, as_bytes(b"# Hi nameless", "application/octet-stream")),
}


@pytest.mark.feature(80)
@pytest.mark.parametrize("kind", ACCEPTED)
async def test_what_n8n_sends_is_taken_and_again_changes_nothing(
    n8n: httpx.AsyncClient, pipeline: Pipeline, kind: str
) -> None:
    path, request = ACCEPTED[kind]

    first = await n8n.post(path, **request)
    embedded = pipeline.embedded()
    again = await n8n.post(path, **request)

    for reply, status in ((first, "created"), (again, "unchanged")):
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/json"
        for item in reply.json().get("items", [reply.json()]):
            assert item["status"] == status
            assert item["chunkCount"] == 1
    assert pipeline.embedded() == embedded


REFUSED: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "a field that an expression left empty": (
        "/rag/ingest",
        as_json(source="n8n", path="a.md", text=""),
        400,
        "text: must not be empty",
    ),
    "a field that an expression left null": (
        "/rag/ingest",
        as_json(source="n8n", path="a.md", text=None),
        400,
        "text: is required",
    ),
    "a field that is missing": ("/rag/ingest", as_json(source="n8n", text="t"), 400, "path: is required"),
    "no fields": ("/rag/ingest", as_json(), 400, "source: is required"),
    "an expression that gave nothing": (
        "/rag/ingest",
        {"content": b"undefined", "headers": {"Content-Type": "application/json"}},
        400,
        "the body is not valid JSON",
    ),
    "an item's list instead of an item": (
        "/rag/ingest",
        {"content": b'[{"source":"n8n"}]', "headers": {"Content-Type": "application/json"}},
        400,
        "the body must be an object, not a list",
    ),
    "tags of another type": (
        "/rag/ingest",
        as_json(source="n8n", path="a.md", text="t", tags={"a": 1}),
        400,
        "tags: must be text or a list, not an object",
    ),
    "an expression instead of its value": (
        "/rag/ingest",
        as_json(source="n8n", path="a.md", text="{{ $json.text }}"),
        400,
        "text: is '{{ $json.text }}': the workflow sent an expression instead of its value",
    ),
    "an object as a text": (
        "/chat",
        as_json(message="[object Object]"),
        400,
        "message: is '[object Object]': the workflow sent an expression instead of its value",
    ),
    "a document for another route": (
        UPLOAD,
        {"content": b'{"source":"n8n","path":"a","text":"t"}', "headers": {"Content-Type": "application/json"}},
        400,
        "the body is one for POST /rag/ingest",
    ),
    "an empty list where a deletion needs filters": (
        "DELETE /rag/documents",
        as_json(filters=[]),
        400,
        "filters: must be",
    ),
    "JSON called text": (
        "/rag/ingest",
        {"content": b'{"source":"n8n"}', "headers": {"Content-Type": "text/plain"}},
        415,
        "the body is text/plain; send application/json",
    ),
    "multipart where JSON is meant": (
        "/rag/ingest",
        as_multipart(("source", None, None, "n8n")),
        415,
        "the body is multipart/form-data; send application/json",
    ),
    "fields without a file": (UPLOAD, as_multipart(("source", None, None, "n8n")), 400, "file: no file was sent"),
    "a file sent as a form": (UPLOAD, as_form("file=x"), 400, "file: a form has no files"),
    "a file that is empty": (UPLOAD, as_multipart(("f", "e.md", "text/plain", "")), 400, "file: e.md is empty"),
    "a file that holds no text": (
        UPLOAD,
        as_multipart(("f", "e.html", "text/html", "<p> </p>")),
        422,
        "e.html holds no readable text",
    ),
}


@pytest.mark.feature(205)
@pytest.mark.parametrize("kind", REFUSED)
async def test_what_n8n_gets_for_a_mistake_is_json_with_a_sentence_that_it_shows(
    n8n: httpx.AsyncClient, kind: str
) -> None:
    path, request, status, sentence = REFUSED[kind]

    method, _, path = path.rpartition(" ")
    reply = await n8n.request(method or "POST", path, **request)

    # n8n reads JSON of this type alone, and takes the first of its fields `error`, `message` … `detail` for the reason.
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json"), reply.text
    body = reply.json()
    assert body["error"] == body["message"] == body["detail"]
    assert body["detail"].startswith(sentence)


async def test_forty_items_at_once_and_the_whole_node_again_leave_the_index_as_it_was(
    n8n: httpx.AsyncClient, pipeline: Pipeline
) -> None:
    def item(number: int) -> dict[str, Any]:
        return as_json(source="n8n-node", path=f"{number}.md", text=f"# Item {number}\n\nText of item {number}.")

    async def node() -> list[str]:
        replies = await asyncio.gather(*(n8n.post("/rag/ingest", **item(number)) for number in range(40)))
        assert {reply.status_code for reply in replies} == {200}
        return [reply.json()["status"] for reply in replies]

    async def documents() -> Sequence[Any]:
        page = (await n8n.get("/rag/documents", params={"source": "n8n-node", "limit": 100})).json()
        return sorted((each["documentId"], each["version"], each["chunkCount"]) for each in page["items"])

    assert await node() == ["created"] * 40
    before, embedded = await documents(), pipeline.embedded()

    for _ in range(2):  # as with `maxTries` 3
        assert await node() == ["unchanged"] * 40

    assert len(before) == 40
    assert await documents() == before
    assert pipeline.embedded() == embedded


async def test_numbers_that_are_strings_are_numbers(n8n: httpx.AsyncClient) -> None:
    await n8n.post("/rag/ingest", **as_json(source="n8n-numbers", path="a.md", text="The lantern burns whale oil."))

    found = await n8n.post("/rag/search", **as_json(query="lantern", topK="1", filters={"source": "n8n-numbers"}))
    chat = await n8n.post("/chat", **as_json(message="What does the lantern burn?", useRag=True, ragTopK="1"))
    page = await n8n.get("/rag/documents", params={"limit": "1"})
    following = await n8n.get("/rag/documents", params={"limit": "1", "cursor": page.json()["nextCursor"]})

    assert (found.status_code, len(found.json()["results"])) == (200, 1)
    assert (chat.status_code, chat.json()["ragUsed"]) == (200, True)
    assert page.json()["items"] != following.json()["items"]


async def test_what_is_taken_otherwise_than_it_was_sent_is_said(n8n: httpx.AsyncClient) -> None:
    item = {"source": "n8n-odd", "path": 7, "text": "The lamp is lit at dusk.", "tags": [1, 2]}
    headers = {"Content-Type": "application/json", "Prefer": "wait=30"}
    sent = await n8n.post("/rag/ingest/batch", content=json.dumps([item]), headers=headers)

    found = await n8n.post("/rag/search", **as_json(query="lamp", topK="", filters={"tags": "2,x", "path": "7"}))
    all_ = await n8n.post("/rag/search", **as_json(query="lamp", filters=[]))
    chat = await n8n.post("/chat", **as_json(message="When is the lamp lit?", conversationId=42, useRag=True))

    assert sent.json()["items"][0]["warnings"] == [
        "path: the number 7 was taken as text",
        "tags: numbers were taken as texts",
    ]
    assert [hit["metadata"]["path"] for hit in found.json()["results"]] == ["7"]
    assert found.json()["warnings"] == ["topK: an empty text was taken as not given"]
    assert all_.json()["warnings"] == ["filters: an empty list was taken as not given"]
    assert (all_.status_code, chat.status_code) == (200, 200)
    assert chat.json()["warnings"][0] == "conversationId: the number 42 was taken as text"


# The workflows of deploy/n8n

UPLOAD_FIELDS = {"file", "source", "path", "title", "tags", "metadata"}


@CI_ONLY
async def test_the_workflows_ask_for_what_there_is(n8n: httpx.AsyncClient) -> None:
    document = (await n8n.get("/openapi.json")).json()

    for call in calls():
        operation = document["paths"][call.path][call.method.lower()]
        if call.kind == "json":
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            known = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
            assert set(known["required"]) <= set(call.fields) <= known["properties"].keys()
        elif call.kind == "multipart-form-data":
            assert set(call.fields) <= UPLOAD_FIELDS
        assert set(call.query) <= {each["name"] for each in operation.get("parameters", [])}
