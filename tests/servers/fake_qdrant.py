"""A server that answers as Qdrant 1.19.0 was seen to, as far as its client's own behaviour shows in the requests."""

import json
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # it publishes no types
import grpc.aio  # type: ignore[import-untyped]
from qdrant_client.grpc import ListCollectionsRequest, ListCollectionsResponse
from qdrant_client.grpc.collections_service_pb2_grpc import CollectionsServicer, add_CollectionsServicer_to_server

from tests.servers.loopback import Connection, LoopbackServer

CONFIG = {
    "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
    "optimizer_config": {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}
    | {"flush_interval_sec": 5},
    "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
}


class FakeQdrant(LoopbackServer):
    """One collection of any name. Tests set what it is, and how it refuses the next writes."""

    def __init__(self) -> None:
        super().__init__()
        self.version = "1.19.0"
        self.key: str | None = None
        self.vectors: dict[str, Any] = {}
        self.replicas = 1
        self.most = 1000  # points in one request
        self.written: list[str] = []
        self.busy: deque[int | None] = deque()  # for each write to refuse: seconds to wait, None: it doesn't say

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        route = urlsplit(path).path
        if route == "/":
            await connection.send(200, json.dumps({"title": "qdrant", "version": self.version}).encode())
        elif self.key not in {None, self.headers.get("api-key")}:
            await connection.send(401, b"Must provide an API key or an Authorization bearer token")
        elif "points" in body and self.busy:
            wait = self.busy.popleft()
            await self._refuse(connection, 429, "busy", *([] if wait is None else [f"retry-after: {wait}"]))
        elif len(body.get("points", ())) > self.most:
            await self._refuse(connection, 413, "Payload too large")
        else:
            self.written += [point["id"] for point in body.get("points", ())]
            result = json.dumps({"result": self._result(route, body), "status": "ok", "time": 0.0})
            await connection.send(200, result.encode())
        return True

    def _result(self, route: str, body: dict[str, Any]) -> Any:
        if route == "/collections":
            return {"collections": []}
        if route.endswith("/count"):
            return {"count": 0}
        if route.endswith("/scroll"):
            return {"points": [], "next_page_offset": None}
        if "ids" in body:
            return []
        if route.count("/") > 2:  # points, points/payload, points/delete
            return {"operation_id": 1, "status": "completed"}
        params = {"vectors": self.vectors, "shard_number": 1, "replication_factor": self.replicas}
        params |= {"write_consistency_factor": 1, "on_disk_payload": True}
        info = {"status": "green", "optimizer_status": "ok", "segments_count": 2, "payload_schema": {}}
        return info | {"config": {"params": params, **CONFIG}}

    @staticmethod
    async def _refuse(connection: Connection, status: int, sentence: str, *headers: str) -> None:
        await connection.send(status, json.dumps({"status": {"error": sentence}, "time": 0.0}).encode(), *headers)


class _Collections(CollectionsServicer):
    def __init__(self, key: str | None) -> None:
        self._key = key

    async def List(  # noqa: N802 - the service's name for it
        self, _request: ListCollectionsRequest, context: Any
    ) -> ListCollectionsResponse:
        if self._key not in {None, dict(context.invocation_metadata()).get("api-key")}:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid API key")
        return ListCollectionsResponse()


@asynccontextmanager
async def over_grpc(key: str | None = None, identity: tuple[bytes, bytes] | None = None) -> AsyncIterator[int]:
    """Give the port of the gRPC side; `identity` is key and certificate in PEM, for TLS."""
    server = grpc.aio.server()
    add_CollectionsServicer_to_server(_Collections(key), server)  # type: ignore[no-untyped-call]  # generated code
    if identity is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([identity]))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def encrypted(key_file: str, certificate_file: str) -> ssl.SSLContext:
    """Return what the REST side needs to speak TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return context
