"""A server that gives the answers a test lays out: for what the real one can't be made to say at will."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest
import uvicorn
from msgspec import Struct

from services.operator_cli.main import main


class Seen(Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    query: dict[str, list[str]]


class Wire:
    """Answers each request from the front of its route's list; the last answer stays."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[Seen] = []
        self._answers: dict[tuple[str, str], list[tuple[int, dict[str, str], bytes]]] = {}

    def clear(self) -> None:
        self.seen.clear()
        self._answers.clear()

    def answers(
        self, method: str, path: str, body: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": "application/json", **(headers or {})}
        self._answers.setdefault((method, path), []).append((status, given, content))

    def refuses(
        self,
        method: str,
        path: str,
        status: int,
        sentence: str,
        code: str = "INVALID",
        details: Mapping[str, Any] | None = None,
        **headers: str,
    ) -> None:
        body = {"title": "no", "status": status, "detail": sentence, "message": sentence, "code": code}
        body |= {"details": details or {}}
        given = {"content-type": "application/problem+json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.answers(method, path, body, status, given)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append(Seen(scope["method"], scope["path"], headers, body, parse_qs(scope["query_string"].decode())))
        waiting = self._answers[(scope["method"], scope["path"])]
        status, given, content = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        raw = [(name.encode(), value.encode()) for name, value in given.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": content})


@pytest.fixture(scope="session")
def _listening() -> Iterator[Wire]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # a request that comes before the server's thread runs waits, and isn't refused
        made = Wire(f"http://127.0.0.1:{listener.getsockname()[1]}")
        server = uvicorn.Server(uvicorn.Config(made, lifespan="off", log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield made
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def wire(_listening: Wire, _plain_environment: None, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Give a server that has heard nothing yet and has no answers, and point the command at it."""
    _listening.clear()
    monkeypatch.setenv("SLUICE_URL", _listening.url)
    return _listening


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the machine's own settings out of the tests."""
    for name in ("URL", "API_KEY", "API_KEYS", "HOST", "PORT", "DATA", "LOG", "STORE", "EMBEDDER", "CHAT", "BLOBS"):
        monkeypatch.delenv(f"SLUICE_{name}", raising=False)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Sluice:
    """Runs a command and returns how it ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, captured.out, captured.err)


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Sluice:
    return Sluice(capsys)
