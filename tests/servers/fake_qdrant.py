"""A server that answers as Qdrant 1.19.0 was seen to, as far as its client's own behaviour shows in the requests."""

import json
import ssl
from collections import deque
from typing import Any
from urllib.parse import urlsplit

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


def encrypted(key_file: str, certificate_file: str) -> ssl.SSLContext:
    """Return what the server needs to speak TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return context
