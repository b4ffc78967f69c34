"""Callbacks from the doors to the receiver: after the end of each submission, and after a restart."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio

from services.query_api.app import make_api
from shared.contracts import DocumentSubmitted, encode
from shared.ids import document_id
from shared.log.headers import PLACE_HEADER, position_header
from shared.topics import SUBMITTED
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY
from tests.servers import loopback
from tests.servers.website import Answer, Website

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAIT_S = 60.0
JSON = {"Prefer": "wait=60"}


class Callee(Website):
    """Takes every callback, or answers as `pages` says; `bodies` are what was sent to a path."""

    async def answer(self, path: str, body: dict[str, Any], connection: loopback.Connection) -> bool:
        self.pages.setdefault(path, Answer(b"{}"))
        return await super().answer(path, body, connection)

    async def got(self, path: str, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(WAIT_S):
            while len(self.bodies(path)) < count:
                await self.arrived.get()
        return self.bodies(path)


@asynccontextmanager
async def api(pipeline: Pipeline) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(cast("Any", make_api(pipeline.parts)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipeline]:
    async with running(tmp_path_factory.mktemp("callbacks"), callback_allow="127.0.0.1") as pipeline:
        yield pipeline


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(pipeline: Pipeline) -> AsyncIterator[httpx.AsyncClient]:
    async with api(pipeline) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def callee() -> AsyncIterator[Callee]:
    async with loopback.running(Callee()) as callee:
        yield callee


async def shown(client: httpx.AsyncClient, document: str, state: str) -> dict[str, Any]:
    """Return the newest callback in the document's view, once it has that state."""
    async with asyncio.timeout(WAIT_S):
        while True:
            callbacks = (await client.get(f"/rag/documents/{document}")).json().get("callbacks", [])
            if callbacks and callbacks[0]["state"] == state:
                return cast("dict[str, Any]", callbacks[0])
            await asyncio.sleep(0.05)


async def test_every_door_calls_back_when_the_document_has_ended(client: httpx.AsyncClient, callee: Callee) -> None:
    def fields(name: str) -> dict[str, str]:
        return {"callbackUrl": f"{callee.url}/{name}"}

    pages = callee.pages
    pages["/page"] = Answer(b"<html><body><p>Herons stand in the shallow water.</p></body></html>")
    sent = [
        client.post("/rag/ingest", json={"source": "d", "path": "json", "text": "Herons.", **fields("json")}),
        client.post("/rag/ingest/text", json={"title": "T", "text": "Herons.", **fields("text")}),
        client.post("/rag/ingest/batch", json=[{"source": "d", "path": "b", "text": "Herons.", **fields("batch")}]),
        client.post("/rag/ingest/upload", files={"file": ("u.txt", b"Herons.")}, data=fields("upload")),
        client.post("/rag/ingest/upload", params=fields("raw"), content=b"Herons.", headers={"X-Filename": "r.txt"}),
        client.post("/knowledge-base", files={"file": ("k.txt", b"Herons.")}, data=fields("kb")),
        client.post("/rag/ingest/url", json={"url": f"{callee.url}/page", **fields("url")}),
    ]
    for reply in await asyncio.gather(*sent):
        assert reply.status_code in (200, 202, 422), reply.text

    for name in ("json", "text", "batch", "upload", "raw", "kb"):
        (told,) = await callee.got(f"/{name}")
        assert (told["type"], told["status"]) == ("document.ended", "created"), name
    (failed,) = await callee.got("/url")
    assert failed["status"] == "failed", "fetching from this machine isn't allowed, but calling it is"
    assert failed["code"] == "ADDRESS_REFUSED"


async def test_it_is_signed_with_the_key_that_the_api_shows(client: httpx.AsyncClient, callee: Callee) -> None:
    key = (await client.get("/rag/callback-key")).json()["key"]
    body = {"source": "signed", "path": "p", "text": "Herons.", "callbackUrl": f"{callee.url}/signed?token=secret"}
    reply = (await client.post("/rag/ingest", json=body)).json()

    ((sent),) = await callee.got("/signed?token=secret")
    headers = callee.headers
    signed = (
        f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode()
        + json.dumps(sent, separators=(",", ":")).encode()
    )
    digest = hmac.new(base64.b64decode(key.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    view = await shown(client, reply["documentId"], "delivered")
    assert view["url"] == f"{callee.url}/signed", "without the query, which is the receiver's secret"
    assert view["submission"] == headers["webhook-id"]


async def test_another_callback_with_the_same_content_makes_no_version_but_is_made(
    client: httpx.AsyncClient, callee: Callee
) -> None:
    body = {"source": "same", "path": "p", "text": "Herons."}
    first = (await client.post("/rag/ingest", json={**body, "callbackUrl": f"{callee.url}/one"}, headers=JSON)).json()
    again = (await client.post("/rag/ingest", json={**body, "callbackUrl": f"{callee.url}/two"}, headers=JSON)).json()

    assert (first["status"], again["status"]) == ("created", "unchanged")
    assert [each["status"] for each in await callee.got("/one")] == ["created"]
    assert [each["status"] for each in await callee.got("/two")] == ["unchanged"]


async def test_a_replay_does_not_call_again(pipeline: Pipeline, client: httpx.AsyncClient, callee: Callee) -> None:
    document = DocumentSubmitted(source="replayed", path="p", text="Herons.", callback_url=f"{callee.url}/replayed")
    entry = await pipeline.send(document)
    await callee.got("/replayed")
    await shown(client, entry.document_id, "delivered")

    for _ in range(2):
        await pipeline.parts.publish(
            SUBMITTED,
            encode(document),
            key=entry.document_id.encode(),
            headers={PLACE_HEADER: position_header(entry.last.place)},
        )
    # The partition is in order, so a submission behind the replay ends after it.
    await pipeline.send(DocumentSubmitted(source="replayed", path="p", text="Cranes."))

    assert len(callee.bodies("/replayed")) == 1
    await shown(client, entry.document_id, "delivered")


async def test_an_address_that_can_not_be_is_refused_at_the_door(client: httpx.AsyncClient) -> None:
    body = {"source": "bad", "path": "p", "text": "Herons.", "callbackUrl": "ftp://example.org/x"}
    reply = await client.post("/rag/ingest", json=body)

    assert reply.status_code == 400
    assert reply.json()["details"]["field"] == "callbackUrl"
    assert "ftp" in reply.json()["message"]


async def test_one_of_a_foreign_record_is_shown_as_failed_and_the_document_stands(
    pipeline: Pipeline, client: httpx.AsyncClient
) -> None:
    value = json.dumps({"source": "bad", "path": "foreign", "text": "Herons.", "callbackUrl": "javascript:x"}).encode()
    entry = await pipeline.send(value, of=DocumentSubmitted(source="bad", path="foreign"))

    assert entry.last.status == "created"
    failed = await shown(client, document_id("default", "bad", "foreign"), "failed")
    assert "javascript" in failed["error"]


async def test_given_an_erased_document_then_its_callbacks_are_gone(client: httpx.AsyncClient, callee: Callee) -> None:
    body = {"source": "erased", "path": "p", "text": "Herons.", "callbackUrl": f"{callee.url}/erased"}
    document = (await client.post("/rag/ingest", json=body, headers=JSON)).json()["documentId"]
    await shown(client, document, "delivered")

    erased = await client.post("/ops/erase", json={"documentIds": [document]})

    assert erased.json()["items"][0]["outcome"] == "erased"
    assert (await client.get(f"/rag/documents/{document}")).json().get("callbacks", []) == []


@CI_ONLY
async def test_given_a_restart_between_the_end_and_the_delivery_then_it_is_delivered_and_private_targets_need_leave(
    tmp_path: Path, callee: Callee
) -> None:
    callee.pages["/later"] = Answer(status=503)
    body = {"source": "s", "path": "p", "text": "Herons.", "callbackUrl": f"{callee.url}/later"}
    private = {**body, "path": "q", "callbackUrl": "http://10.255.255.1/x"}
    async with running(tmp_path, callback_allow="127.0.0.1") as before, api(before) as client:
        document = (await client.post("/rag/ingest", json=body, headers=JSON)).json()["documentId"]
        refused = (await client.post("/rag/ingest", json=private, headers=JSON)).json()["documentId"]
        await callee.got("/later")
        why = (await shown(client, refused, "failed"))["error"]
    callee.pages["/later"] = Answer(b"{}")

    async with running(tmp_path, callback_allow="127.0.0.1") as after, api(after) as client:
        told = await shown(client, document, "delivered")

    assert "10.255.255.1 is not a public address" in why
    assert "SLUICE_CALLBACK_ALLOW" in why
    assert told["tries"] >= 2
    assert {each["documentId"] for each in callee.bodies("/later")} == {document}
