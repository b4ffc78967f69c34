"""A small Ollama server on loopback, in the test's own loop: real HTTP, real NDJSON, and the faults of real ones.

It answers as Ollama 0.17 was seen to: 404 with a hint for an unknown model, 400 for the whole batch when one input is
too long and `truncate` is false, `"embeddings": []` for an empty input, chunked NDJSON with `done` on the last line.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

EMBEDDING_MODEL = "nomic-embed-text"
CHAT_MODEL = "llama3.2"
DIMENSION = 64
CONTEXT = 256  # words and signs

Fault = Literal[
    "hang",  # takes the request and never answers
    "500",
    "503",
    "404",
    "400",
    "html",  # a proxy's page with status 200
    "list",  # JSON of another shape
    "half",  # the connection closes within the body
    "redirect",
    "few",  # one vector too few
    "short",  # vectors of another dimension
    "nan",
    "null",
    "zero",
    "stall",  # chat: one piece, then nothing
    "error",  # chat: an error line within the stream
    "undone",  # chat: the stream ends without `done`
]


class FakeOllama:
    """The server; tests set `fault`, and read `requests` and `left`."""

    def __init__(self) -> None:
        self.url = ""
        self.host = ""
        self.models: dict[str, str] = {f"{EMBEDDING_MODEL}:latest": "embedding", f"{CHAT_MODEL}:latest": "completion"}
        self.fault: Fault | None = None
        self.reply = "According to [1]: it is so."
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.at_once = 0
        self.arrived: asyncio.Queue[str] = asyncio.Queue()  # the path of every request, as it comes
        self.left = asyncio.Event()  # a client went before its answer was complete

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.requests if asked == path]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                length = re.search(rb"(?i)content-length: (\d+)", head)
                raw = await reader.readexactly(int(length[1])) if length else b""
                body = json.loads(raw) if raw else {}
                self.requests.append((path, body))
                self.arrived.put_nowait(path)
                self.at_once += 1
                try:
                    goes_on = await self._answer(path, body, reader, writer)
                finally:
                    self.at_once -= 1
                if not goes_on:
                    break
        writer.close()

    async def _answer(
        self, path: str, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        fault = self.fault
        if fault == "hang":
            await self._until_left(reader)
            return False
        if fault == "redirect":
            await _send(writer, 307, b"", "location: http://127.0.0.1:9/")
            return True
        if fault in {"500", "503", "404", "400"}:
            await _send(writer, int(fault), json.dumps({"error": f"fault {fault}"}).encode())
            return True
        if fault == "html":
            await _send(writer, 200, b"<html>welcome</html>")
            return True
        if fault == "list":
            await _send(writer, 200, b"[1, 2]\n")
            return True
        if path == "/api/chat" and self._has(body["model"]):
            return await self._chat(body, reader, writer)
        status, answer = self._plain(path, body)
        encoded = json.dumps(answer).encode()
        if fault == "half":
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-length: {len(encoded)}\r\n\r\n".encode() + encoded[: len(encoded) // 2]
            )
            await writer.drain()
            return False
        await _send(writer, status, encoded)
        return True

    def _has(self, model: str) -> bool:
        return (model if ":" in model else f"{model}:latest") in self.models

    def _plain(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/api/tags":
            return 200, {"models": [{"name": m, "model": m, "digest": _hex(m), "size": 1} for m in self.models]}
        model = str(body.get("model"))
        if not self._has(model):
            return 404, {"error": f'model "{model}" not found, try pulling it first'}
        if path == "/api/show":
            kind = self.models[model if ":" in model else f"{model}:latest"]
            return 200, {
                "model_info": {"general.architecture": "nomic-bert", "nomic-bert.context_length": CONTEXT},
                "parameters": "num_ctx                        8192",
                "capabilities": [kind],
            }
        assert path == "/api/embed", path
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not body.get("truncate", True) and any(len(_words(text)) > CONTEXT for text in texts):
            return 400, {"error": "the input length exceeds the context length"}
        vectors: list[Any] = [_vector(text) for text in texts] if any(texts) else []
        match self.fault:
            case "few":
                vectors = vectors[:-1]
            case "short":
                vectors = [vector[:-1] for vector in vectors]
            case "nan" | "null":
                vectors[-1][0] = float("nan") if self.fault == "nan" else None
            case "zero":
                vectors[-1] = [0.0] * DIMENSION
        return 200, {"model": model, "embeddings": vectors}

    async def _chat(self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n")
        for number, piece in enumerate(_pieces(self.reply)):
            if number and self.fault in {"stall", "half", "error"}:
                break
            line = {"model": body["model"], "message": {"role": "assistant", "content": piece}, "done": False}
            await _chunk(writer, line)
        match self.fault:
            case "stall":
                await self._until_left(reader)
                return False
            case "half":
                return False
            case "error":
                await _chunk(writer, {"error": "the runner was killed"})
            case "undone":
                pass
            case _:
                end = {"model": body["model"], "message": {"role": "assistant", "content": ""}, "done": True}
                await _chunk(writer, end | {"done_reason": "stop"})
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _until_left(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()
        self.left.set()


@asynccontextmanager
async def fake_ollama() -> AsyncIterator[FakeOllama]:
    """Give a running server on a free port of loopback."""
    fake = FakeOllama()
    serving: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await fake.serve(reader, writer)
        finally:
            serving.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    fake.host, fake.url = f"{host}:{port}", f"http://{host}:{port}"
    try:
        yield fake
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, *headers: str) -> None:
    head = "\r\n".join((f"HTTP/1.1 {status} Status", f"content-length: {len(body)}", *headers))
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await writer.drain()


async def _chunk(writer: asyncio.StreamWriter, line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def _vector(text: str) -> list[float]:
    """Return a vector that is nearer where more words are shared; not of unit length."""
    vector = [0.01] * DIMENSION
    for word in _words(text):
        vector[int(_hex(word)[:8], 16) % DIMENSION] += 3.0
    return vector


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pieces(text: str) -> Iterator[str]:
    yield from re.findall(r"\s*\S{1,3}", text)
