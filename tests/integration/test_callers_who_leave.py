"""Where a part hangs: what only reads soon ends, also with its caller, and a write goes on. Over a real server."""

import asyncio
import inspect
import json
import math
import socket
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from litestar import Litestar

from services.query_api.app import ApiParts
from services.query_api.http.linger import PATIENCE_S, WRITING_S
from services.query_api.http.openapi import described
from services.query_api.ingest.unchanged_check import DOOR_S
from shared.answers.model_pool import ChatModel, ChatModels
from shared.errors import Unavailable
from shared.runtime.connections import Connections, LimitedProtocol
from shared.times import PATIENCE
from tests.docs.examples import REQUESTS
from tests.fakes.answers import MemoryAnswers
from tests.integration.api import an_app
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

HANG_GUARD_S = 60.0
READS = {"rag_ingest_check", "process_file"}  # beside GET and whatever the role `query` may do
WRITES = {"rag_feedback"}  # though the role `query` may do it
DOORS = {"rag_ingest", "rag_ingest_text", "rag_ingest_upload", "knowledge_base"}  # compare what they are sent first


class Hung:
    """What waits in a part: begun, cancelled, or let go on."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.begun, self.cancelled, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.go_on = asyncio.Event()
        self.patience = math.nan

    async def wait(self) -> None:
        self.patience = PATIENCE.get()
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.ended.set()


class Hanging:
    """A part, each of whose asynchronous methods waits first."""

    def __init__(self, part: Any, hung: Hung) -> None:
        self._part, self._hung = part, hung

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def waits(*args: Any, **options: Any) -> Any:
            await self._hung.wait()
            raise Unavailable(f"{name} was let go on")  # nothing is changed here

        return waits


def request(method: str, path: str, name: str) -> bytes:
    """Return the route's example as a caller sends it."""
    example = REQUESTS[name]
    for field, value in example.path.items():
        path = path.replace(f"{{{field}}}", value)
    body = b"" if example.body is None else json.dumps(example.body).encode()
    query = f"?{urlencode(example.query)}" if example.query else ""
    lines = [f"{method.upper()} {path}{query} HTTP/1.1", "Host: x", "X-API-Key: key-boss", "Prefer: wait=0"]
    lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def patience_of(method: str, name: str, role: str | None) -> float:
    if method == "get" or (role == "query" and name not in WRITES) or name in READS:
        return PATIENCE_S
    return math.inf if role in {"admin", "operator"} else DOOR_S if name in DOORS else WRITING_S


def routes_of(app: Litestar) -> list[tuple[str, str, str, float]]:
    """Return method, path and name of each route, and how long it waits for a part."""
    return [
        (method, path, name, patience_of(method, name, route.get("x-role")))
        for path, item in described(app)["paths"].items()
        for method, route in item.items()
        if (name := route["operationId"])
    ]


@CI_ONLY
async def test_what_only_reads_ends_with_its_caller_and_a_write_does_not(parts: ApiParts) -> None:
    hung = Hung()
    changed = {name: Hanging(getattr(parts, name), hung) for name in ("log", "ledger", "index", "embedder", "blobs")}
    models = ChatModels([ChatModel(name="extractive", server="openai", answers=MemoryAnswers())])
    app = an_app(parts, **changed, models=models)
    limited = partial(LimitedProtocol, limits=Connections(100))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", http=limited))  # type: ignore[arg-type]
    sock = socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(server._serve([sock]))
    cancelled, finished = set[str](), set[str]()
    try:
        for method, path, name, patience_s in routes_of(app):
            reads = patience_s == PATIENCE_S
            hung.begin()
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(request(method, path, name))
            replied = asyncio.create_task(reader.read(1))
            begun = asyncio.create_task(hung.begun.wait())
            async with asyncio.timeout(HANG_GUARD_S):
                await asyncio.wait({replied, begun}, return_when=asyncio.FIRST_COMPLETED)
                replied.cancel()
                began = begun.done()
                begun.cancel()
                writer.transport.abort()
                assert not began or hung.patience == patience_s, name
                if began and reads:
                    await hung.cancelled.wait()
                    cancelled.add(name)
                elif began:
                    await asyncio.sleep(0.05)
                    assert not hung.cancelled.is_set(), name
                    hung.go_on.set()
                    await hung.ended.wait()
                    finished.add(name)
                hung.go_on.set()
                await asyncio.gather(*server.server_state.tasks, return_exceptions=True)
    finally:
        hung.go_on.set()
        server.should_exit = True
        await running
        sock.close()

    assert cancelled >= {"rag_search", "rag_search_batch", "rag_query", "openai_vector_store_search", "rag_documents"}
    assert len(cancelled) >= 25
    assert finished >= WRITES | {"rag_documents_delete", "rag_document_delete", "ops_erase", "rag_document_patch"}
