"""Qdrant's REST API over the client's local mode, for stories of several processes where no Qdrant server is.

What local mode answers, the contract suite of the stores has compared with a server. Nothing is kept on disk.
"""

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import uvicorn
from pydantic import BaseModel
from qdrant_client import models
from qdrant_client.local.qdrant_local import QdrantLocal

from tests.servers.ports import free_port

VERSION = "1.19.0"
START_GUARD_S = 20.0
DONE = {"operation_id": 1, "status": "completed"}


class LocalQdrant:
    """The server's collections, as an ASGI application. Requests are served one after the other: a write is atomic."""

    def __init__(self) -> None:
        self._local = QdrantLocal(":memory:")
        self._indexes: dict[str, dict[str, Any]] = {}  # of each collection, as the server describes them
        self._sent: dict[tuple[str, str], list[Any]] = {}  # the newest dense vector of a collection's point
        self._routes: dict[tuple[str, str], Callable[[str, dict[str, Any]], Any]] = {
            ("GET", ""): self._info,
            ("PUT", "index"): self._index,
            ("POST", "facet"): self._facet,
            ("PUT", "points"): self._upsert,
            ("POST", "points"): self._retrieve,
            ("POST", "points/scroll"): self._scroll,
            ("POST", "points/count"): self._count,
            ("POST", "points/delete"): self._delete,
            ("POST", "points/payload"): self._set_payload,
            ("POST", "points/query/batch"): self._query,
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        assert scope["type"] == "http", scope["type"]
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        status, answer = self._answer(scope["method"], scope["path"].strip("/"), json.loads(raw) if raw else {})
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body: 404 without the collection, 400 where local mode refuses."""
        _, _, rest = path.partition("/")
        name, _, what = rest.partition("/")
        match method, path, what:
            case "GET", "", _:
                return 200, {"title": "qdrant - vector search engine", "version": VERSION}
            case "GET", "collections", _:
                return _done({"collections": [{"name": each} for each in sorted(self._indexes)]})
            case "GET", _, "exists":
                return _done({"exists": name in self._indexes})
            case "PUT", _, "":
                return self._create(name, body)
            case "DELETE", _, "":
                self._indexes.pop(name, None)
                return _done(self._local.delete_collection(name))
        if name not in self._indexes:
            return _refused(404, f"Not found: Collection `{name}` doesn't exist!")
        try:
            return _done(self._routes[method, what](name, body))
        except ValueError as error:
            return _refused(400, f"Wrong input: {error}")

    def _create(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if name in self._indexes:
            return _refused(409, f"Wrong input: Collection `{name}` already exists!")
        wanted = models.CreateCollection.model_validate(body)
        self._local.create_collection(name, wanted.vectors or {}, wanted.sparse_vectors)
        self._indexes[name] = {}
        return _done(True)

    def _info(self, name: str, _body: dict[str, Any]) -> Any:
        info = _plain(self._local.get_collection(name))
        info["config"]["params"]["replication_factor"] = 1
        return info | {"payload_schema": self._indexes[name]}

    def _index(self, name: str, body: dict[str, Any]) -> Any:
        asked = body["field_schema"]
        kind = asked["type"] if isinstance(asked, dict) else asked
        self._indexes[name][body["field_name"]] = {"data_type": kind, "points": 0}
        return DONE

    def _upsert(self, name: str, body: dict[str, Any]) -> Any:
        wanted = models.PointsList.model_validate(body)
        self._local.upsert(name, wanted.points, update_filter=wanted.update_filter, update_mode=wanted.update_mode)
        for point in wanted.points:
            dense = point.vector.get("") if isinstance(point.vector, dict) else None
            if isinstance(dense, list):
                self._sent[name, str(point.id)] = dense
        return DONE

    def _exact(self, name: str, record: models.Record) -> dict[str, Any]:
        """Return the record with its vector as it was sent: local mode makes it unit again, which moves a bit."""
        found: dict[str, Any] = _plain(record)
        vector, sent = found.get("vector"), self._sent.get((name, str(record.id)))
        dense = vector.get("") if isinstance(vector, dict) else vector
        if dense is None or sent is None or not np.allclose(dense, sent, atol=1e-5):
            return found
        return found | {"vector": vector | {"": sent} if isinstance(vector, dict) else sent}

    def _retrieve(self, name: str, body: dict[str, Any]) -> Any:
        asked = models.PointRequest.model_validate(body)
        payload = True if asked.with_payload is None else asked.with_payload
        found = self._local.retrieve(name, asked.ids, payload, asked.with_vector or False)
        return [self._exact(name, each) for each in found]

    def _scroll(self, name: str, body: dict[str, Any]) -> Any:
        asked = models.ScrollRequest.model_validate(body)
        found, after = self._local.scroll(
            name,
            asked.filter,
            asked.limit or 10,
            asked.order_by,
            asked.offset,
            asked.with_payload if asked.with_payload is not None else True,
            asked.with_vector or False,
        )
        return {"points": [self._exact(name, each) for each in found], "next_page_offset": after}

    def _count(self, name: str, body: dict[str, Any]) -> Any:
        return self._local.count(name, models.CountRequest.model_validate(body).filter)

    def _facet(self, name: str, body: dict[str, Any]) -> Any:
        asked = models.FacetRequest.model_validate(body)
        return self._local.facet(name, asked.key, asked.filter, asked.limit or 10, exact=True)

    def _delete(self, name: str, body: dict[str, Any]) -> Any:
        if "filter" in body:
            self._local.delete(name, models.FilterSelector.model_validate(body))
        else:
            self._local.delete(name, models.PointIdsList.model_validate(body))
        return DONE

    def _set_payload(self, name: str, body: dict[str, Any]) -> Any:
        wanted = models.SetPayload.model_validate(body)
        self._local.set_payload(name, wanted.payload, wanted.filter or wanted.points or [], wanted.key)
        return DONE

    def _query(self, name: str, body: dict[str, Any]) -> Any:
        asked = models.QueryRequestBatch.model_validate(body)
        return self._local.query_batch_points(name, asked.searches)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _done(result: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"result": _plain(result), "status": "ok", "time": 0.0}


def _refused(status: int, sentence: str) -> tuple[int, dict[str, Any]]:
    return status, {"status": {"error": sentence}, "time": 0.0}


@contextmanager
def local_qdrant() -> Iterator[str]:
    """Give the URL of a new server, on a free port of loopback, in a thread of its own."""
    warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(LocalQdrant(), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_GUARD_S
    while not server.started:
        assert time.monotonic() < deadline, "the server didn't start"
        time.sleep(0.01)  # a thread: there is nothing to await
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(START_GUARD_S)
