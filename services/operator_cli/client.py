"""The HTTP client of the commands. A method returns the reply or raises RequestRefused or ServerAway."""

import json
import mimetypes
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from services.operator_cli.errors import Forbidden, Misuse, RequestRefused, ServerAway
from shared.runtime.data_lock import owner_of
from shared.settings import ConfigurationError, load_settings
from shared.times import seconds_of
from shared.version import VERSION

WAIT_S: Final = 300  # seconds; the longest wait for a submission's end that the server allows
FORGET_S: Final = 3 * 3600.0  # rewriting files of many gigabytes, and building their index, takes long
TRIES: Final = 4  # of a request that the server answers with one of these statuses
_FOR_NOW: Final = frozenset({httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS})
_LONG: Final = httpx.Timeout(WAIT_S, connect=5)
A_PAGE: Final = {"/rag/documents": 1000, "/ops/dead-letters": 100}  # items
RETRY_CAP_S: Final = 10.0  # longest pause, even if the server asks for a longer one
_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses to replace, not to bind


def address(url: str | None = None) -> str:
    """Return the server's base address: `url`, else SLUICE_URL, else SLUICE_HOST and SLUICE_PORT.

    Raises:
        ConfigurationError: the address isn't an HTTP address, or the port is 0, so only the server knows it.
    """
    if url := url or os.environ.get("SLUICE_URL"):
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:  # its words may have a piece of a password
            raise ConfigurationError(f"SLUICE_URL={url} is not an address") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ConfigurationError(f"SLUICE_URL={url} must be http://host:port or https://host")
        return url.rstrip("/")
    settings = load_settings()
    if settings.port == 0:
        raise ConfigurationError(
            "SLUICE_PORT=0 means any free port: set SLUICE_URL=http://host:port to the server's address"
        )
    host = _EVERY_ADDRESS.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


class Client:
    """Talks to one server; usable from many threads. Every method raises ServerAway or RequestRefused."""

    def __init__(self, url: str | None = None) -> None:
        """Take the server's address and SLUICE_API_KEY from the environment unless `url` is given.

        If neither names an address, the server that owns the data folder is asked through its socket, without a key.
        """
        own = None if url or os.environ.get("SLUICE_URL") else owner_of(load_settings().data)
        self.url = address(url) if own is None else own[1]
        headers = {"User-Agent": f"sluice/{VERSION}"}
        if key := os.environ.get("SLUICE_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        timeout, through = httpx.Timeout(60, connect=5), None if own is None else httpx.HTTPTransport(uds=own[0])
        # trust_env off: the environment's proxy is meant for the web, not for this machine's own server.
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout, transport=through, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def search(self, query: str, *, top_k: int, filters: Mapping[str, Any], explain: bool = False) -> dict[str, Any]:
        """Return `{results[{text, score, metadata}]}`, best first."""
        body = {"query": query, "topK": top_k, "filters": _given(**filters), "explain": explain}
        return self._object("POST", "/rag/search", json=body)

    def ask(self, question: str, *, top_k: int, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of `POST /chat` with retrieval on: `response`, `ragUsed`, `ragSources[]`, `data.model`."""
        body = {"message": question, "useRag": True, "ragTopK": top_k, "ragFilters": _given(**filters)}
        return self._object("POST", "/chat", json=body, timeout=_LONG)

    def mcp(self, message: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the reply of `/mcp` to one JSON-RPC message; empty if there is none."""
        manners = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        reply = self._once("POST", "/mcp", content=message, headers={**manners, **headers}, timeout=_LONG)
        # The protocol's own errors come with an HTTP error status, too.
        if reply.is_success or "jsonrpc" in _object_in(reply):
            return reply.content
        raise RequestRefused(_sentence(reply))

    # `about` are the fields of what is sent as those of a form: source, tags, title, metadata, chunkSize …

    def upload(self, file: Path, path: str, about: Mapping[str, Any]) -> dict[str, Any]:
        """Send a file; return `{status, documentId, chunkCount}` when it is processed, or `accepted` after WAIT_S."""
        sent = {"file": (file.name, file.read_bytes(), media_type(file))}
        return self.waiting("POST", "/rag/ingest/upload", data={**about, "path": path}, files=sent)

    def unchanged(self, held: Sequence[tuple[Path, str, str]], about: Mapping[str, Any]) -> list[bool]:
        """Return for each file, given with its path and hash, whether `upload` would change nothing."""
        fields = {name: about[name] for name in ("source", "tags", "title") if name in about}
        if "metadata" in about:
            fields["metadata"] = json.loads(about["metadata"])
        fields |= {name: int(about[name]) for name in ("chunkSize", "chunkOverlap") if name in about}
        items = [
            {**fields, "path": path, "hash": hash_, "filename": file.name, "mediaType": media_type(file)}
            for file, path, hash_ in held
        ]
        checked = self._object("POST", "/rag/ingest/check", json={"items": items})["items"]
        return [bool(each["unchanged"]) for each in checked]

    def found(self, named: str) -> dict[str, Any]:
        """Return the document with this id, path or URL.

        Raises:
            RequestRefused: there is none. Misuse: several documents have the path.
        """
        try:
            return self.get("rag", "documents", named)
        except RequestRefused:
            page = self._object("GET", "/rag/documents", params={"path": named, "limit": 10})
        if len(page["items"]) == 1:
            return self.get("rag", "documents", page["items"][0]["documentId"])
        if page["items"]:
            several = ", ".join(f"{each['documentId']} ({each['source']})" for each in page["items"])
            raise Misuse(f"several documents have the path {named}; give one of their ids: {several}")
        raise RequestRefused(f"no document has the id, path or address {named}; list them with `sluice documents ls`")

    def reread(self, document_id: str) -> dict[str, Any]:
        """Let the document be read again from its original if its reader has changed; returns what `upload` does."""
        return self.waiting("POST", _route("rag", "documents", document_id, "reread"))

    def delete(self, document_id: str) -> dict[str, Any]:
        """Delete a document; return `{status: "deleted", documentId}` when no search finds it any more."""
        return self.waiting("DELETE", _route("rag", "documents", document_id))

    def get(self, *path: str, **params: str | None) -> dict[str, Any]:
        """Return the reply of the route with these parts of its path."""
        return self._object("GET", _route(*path), params=_given(**params), timeout=_LONG)

    def forget(self, proofs: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
        """Rewrite and search the data files; return `{parts[], files, found[]}`; dry: only search."""
        body = {"proofs": list(proofs), "dryRun": dry_run}
        return self._object("POST", "/ops/forget", json=body, timeout=httpx.Timeout(FORGET_S, connect=5))

    def content(self, *path: str) -> bytes:
        """Return the body of the reply of the route with these parts of its path."""
        return self._send("GET", _route(*path)).content

    def send(self, path: str, body: Mapping[str, Any], method: str = "POST") -> dict[str, Any]:
        """Return the reply to a JSON body."""
        return self._object(method, path, json=dict(body), timeout=_LONG)

    def pages(self, method: str, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the reply to the body, and to what follows it page by page, with one request for each."""
        cursor: str | None = None
        while True:
            page = self.waiting(method, path, json=_given(**body, cursor=cursor))
            yield page
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def listed(self, path: str, limit: int = sys.maxsize, **filters: Any) -> dict[str, Any]:
        """Return `{items[], nextCursor, …}`, at most `limit` items, newest first, over as many pages as needed."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            params = _given(**filters, cursor=cursor, limit=min(A_PAGE[path], limit - len(items)))
            page = self._object("GET", path, params=params)
            items += page["items"]
            cursor = page["nextCursor"]
            if cursor is None or len(items) >= limit:
                return {**page, "items": items}

    def readiness(self) -> dict[str, Any]:
        """Return the reply of `/readyz`, ready or not: `{status, checks}`, and `details` if there are any."""
        return self._read(self._once("GET", "/readyz"))

    def metric(self, name: str) -> float:
        """Return the sum of a Prometheus metric's samples; 0 if there are none yet."""
        return sum(self.samples(name).values())

    def samples(self, name: str) -> dict[str, float]:
        """Return a Prometheus metric's samples by the value of its only label, or by the empty string."""
        from prometheus_client.parser import text_string_to_metric_families  # not every command needs it

        families = text_string_to_metric_families(self._send("GET", "/metrics").text)
        samples = (each for family in families for each in family.samples if each.name == name)
        return {next(iter(each.labels.values()), ""): each.value for each in samples}

    def waiting(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Return the reply to a request that is answered when the document has ended, or after WAIT_S."""
        prefer, timeout = {"Prefer": f"wait={WAIT_S}"}, httpx.Timeout(WAIT_S + 30, connect=5)
        return self._object(method, path, headers=prefer, timeout=timeout, **options)

    def _object(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        return self._read(self._send(method, path, **options))

    def _read(self, reply: httpx.Response) -> dict[str, Any]:
        body = _object_in(reply)
        if not body:
            raise ServerAway(
                f"the server at {self.url} is not Sluice: it replied {reply.status_code} without a JSON object"
            )
        return body

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send the request; retry while the server answers with `Retry-After`. Every request here is safe to repeat."""
        reply = self._once(method, path, **options)
        for _ in range(TRIES - 1):
            if reply.status_code not in _FOR_NOW or "retry-after" not in reply.headers:
                break
            # Errors such as NO_MODEL don't pass by waiting.
            if _code(reply) not in ("", "UNAVAILABLE", "TOO_MANY_REQUESTS"):
                break
            # As it asked, but a date may be over by this machine's clock.
            asked_s = seconds_of(reply.headers["retry-after"])
            time.sleep(RETRY_CAP_S if asked_s is None else min(max(asked_s, 1.0), RETRY_CAP_S))
            reply = self._once(method, path, **options)
        if reply.is_success:
            return reply
        if reply.status_code == httpx.codes.FORBIDDEN:
            raise Forbidden(_sentence(reply))
        details = _object_in(reply).get("details")
        raise RequestRefused(
            _sentence(reply), _code(reply), details.get("documentId") if isinstance(details, dict) else None
        )

    def _once(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx.ConnectError:
            started = "start it with `make run` or `sluice serve`, or set SLUICE_URL to where it is"
            raise ServerAway(f"no Sluice answers at {self.url}; {started}") from None
        except httpx.TimeoutException:
            raise ServerAway(f"the Sluice at {self.url} didn't answer in time") from None
        except httpx.HTTPError as error:
            raise RequestRefused(f"the Sluice at {self.url} broke off: {error}") from None


def media_type(file: Path) -> str:
    """Return the media type that the file's name suggests."""
    return mimetypes.guess_type(file.name)[0] or "application/octet-stream"


def _given(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}


def _route(*parts: str) -> str:
    """Return the path; its parts are encoded, so that no id can name another route."""
    return "".join(f"/{quote(each, safe='')}" for each in parts) or "/"


def _object_in(reply: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of the reply, empty if it has none."""
    try:
        body = reply.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _code(reply: httpx.Response) -> str:
    return str(_object_in(reply).get("code", ""))


def _sentence(reply: httpx.Response) -> str:
    problem = _object_in(reply)
    sentence = problem.get("detail") or problem.get("message")
    if not isinstance(sentence, str):
        return f"{reply.request.method} {reply.request.url.path} was answered {reply.status_code} {reply.reason_phrase}"
    if reply.status_code == httpx.codes.UNAUTHORIZED:
        return f"{sentence} (the command takes its key from SLUICE_API_KEY)"
    return sentence
