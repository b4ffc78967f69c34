"""The API as tests talk to it: in this process, or on a port of its own."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import httpx
import uvicorn
from aiokafka import TopicPartition
from aiokafka.structs import RecordMetadata
from litestar import Litestar

from services.query_api.app import ApiParts, make_api
from tests.conformance import Conformance

TENANTS = 1_000  # more than there are tests
MAX_BODY = 1_000_000
LANTERN = "# Lantern\n\nThe lantern on the pier is lit at six in the evening.\n\nIt burns whale oil."
HERONS = "Herons nest in the old willow behind the boathouse, and nobody may disturb them before June."


def an_app(parts: ApiParts, **changed: Any) -> Litestar:
    """Return an API of the same parts but those named."""
    return make_api(replace(parts, **changed))


def a_client(app: Litestar, tenant: str = "") -> httpx.AsyncClient:
    key = {"Authorization": f"Bearer key-of-{tenant}"} if tenant else {}
    # Litestar's types of the same protocol are narrower than httpx's.
    transport = httpx.ASGITransport(cast("Any", app))
    return httpx.AsyncClient(
        transport=transport,
        base_url="http://127.0.0.1",
        headers=key,
        timeout=60,
        event_hooks={"response": [Conformance.of(app).check_reply]},
    )


async def publish_nothing(
    topic: str,
    value: bytes | None,
    *,
    key: bytes,
    route: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> RecordMetadata:
    """Confirm a record that no worker will see."""
    return RecordMetadata(topic, 0, TopicPartition(topic, 0), 0, 1, 0, 0)


async def ingested(client: httpx.AsyncClient, text: str = LANTERN, **fields: Any) -> str:
    reply = await client.post(
        "/rag/ingest",
        json={"source": "s", "path": "lantern.md", "text": text, **fields},
        headers={"Prefer": "wait=300"},  # a loaded machine takes longer than the usual 30 s
        timeout=300,
    )
    assert reply.status_code == 200, reply.text
    id_: str = reply.json()["documentId"]
    return id_


def problem(reply: httpx.Response, status: int, code: str | None = None) -> str:
    """Return the sentence of a problem that has every field it must have."""
    body = reply.json()
    assert (reply.status_code, body["status"]) == (status, status), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert body["success"] is False
    assert body["error"] == body["message"] == body["detail"]
    assert {"type", "title", "instance", "code", "details"} <= body.keys()
    assert code in (None, body["code"])
    sentence: str = body["detail"]
    return sentence


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return names and data of the events of a stream; comments are none."""
    found = []
    for block in text.strip().replace("\r\n", "\n").split("\n\n"):
        if block.startswith(":"):
            continue
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines["event"], json.loads(lines["data"])))
    return found


@asynccontextmanager
async def listening(app: Litestar) -> AsyncIterator[tuple[str, int]]:
    """Give the address of a real server."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", http="httptools"))
    sock = socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(server._serve([sock]))
    try:
        yield sock.getsockname()
    finally:
        server.should_exit = True
        await running
        sock.close()


def raw(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", "X-API-Key: key-admin", *headers, "", ""]).encode()
