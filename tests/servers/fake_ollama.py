"""A small Ollama server on loopback, in the test's own loop: real HTTP, real NDJSON, and the faults of real ones.

It answers as Ollama 0.17 was seen to: 404 with a hint for an unknown model, 400 for the whole batch when one input is
too long and `truncate` is false, `"embeddings": []` for an empty input, chunked NDJSON with `done` on the last line.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.servers.fake_models import digest, pieces, spoilt, vector, words
from tests.servers.loopback import Connection, LoopbackServer, running

EMBEDDING_MODEL = "nomic-embed-text"
CHAT_MODEL = "llama3.2"

Fault = Literal[
    "hang",
    "500",
    "503",
    "404",
    "400",
    "html",
    "list",
    "half",
    "redirect",
    "few",  # one vector too few
    "short",  # vectors of another dimension
    "nan",
    "null",
    "zero",
    "stall",  # chat: one piece, then nothing
    "error",  # chat: an error line within the stream
    "undone",  # chat: the stream ends without `done`
    "length",  # chat: the answer reaches its limit
]


class FakeOllama(LoopbackServer):
    """The server; tests set its fields, and read `requests` and `left`."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, str] = {f"{EMBEDDING_MODEL}:latest": "embedding", f"{CHAT_MODEL}:latest": "completion"}
        self.context = 256  # words and signs of a text to embed
        self.window = 8192  # of a conversation
        self.own_context = 131_072  # tokens, of a chat model
        self.poison: str | None = None  # a word for which the runner fails
        self.stumbles_from: int | None = None  # words and signs: it fails for texts as long, and doesn't say why
        self.weights = "first"
        self.reply = "According to [1]: it is so."
        self.json_reply = '{"days": [9]}'  # where JSON is wanted
        self.calls: list[dict[str, Any]] = []  # of tools, that end each answer

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        if path == "/api/chat" and self._has(body["model"]):
            return await self._chat(body, connection)
        status, answer = self._plain(path, body)
        await connection.send(status, json.dumps(answer).encode(), cut=self.fault == "half")
        return self.fault != "half"

    def _has(self, model: str) -> bool:
        return (model if ":" in model else f"{model}:latest") in self.models

    def _plain(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/api/tags":
            listed = [{"name": m, "model": m, "digest": digest(m + self.weights), "size": 1} for m in self.models]
            return 200, {"models": listed}
        model = str(body.get("model"))
        if not self._has(model):
            return 404, {"error": f'model "{model}" not found, try pulling it first'}
        if path == "/api/show":
            kind = self.models[model if ":" in model else f"{model}:latest"]
            own = 256 if kind == "embedding" else self.own_context
            return 200, {
                "model_info": {"general.architecture": "nomic-bert", "nomic-bert.context_length": own},
                "parameters": "num_ctx                        8192",
                "capabilities": [kind],
            }
        assert path == "/api/embed", path
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not body.get("truncate", True) and any(len(words(text)) > self.context for text in texts):
            return 400, {"error": "the input length exceeds the context length"}
        long = any(len(words(text)) >= self.stumbles_from for text in texts) if self.stumbles_from else False
        if long or (self.poison and any(self.poison in text for text in texts)):
            return 500, {"error": "failed to encode response: json: unsupported value: NaN"}
        vectors = [vector(text) for text in texts] if any(texts) else []
        return 200, {"model": model, "embeddings": spoilt(vectors, self.fault)}

    async def _chat(self, body: dict[str, Any], connection: Connection) -> bool:
        said = "\n".join(message["content"] for message in body["messages"])
        if not body.get("truncate", True) and len(words(said)) > self.window:
            await connection.send(400, b'{"error":"the input length exceeds the context length"}')
            return True
        await connection.begin("application/x-ndjson")
        for number, piece in enumerate(pieces(self.json_reply if body.get("format") else self.reply)):
            if number and self.fault in {"stall", "half", "error"}:
                break
            await _line(connection, body, {"content": piece})
        match self.fault:
            case "stall":
                await connection.until_left()
                return False
            case "half":
                return False
            case "error":
                await connection.chunk(b'{"error": "the runner was killed"}\n')
            case "undone":
                pass
            case fault:
                end = {"content": "", "tool_calls": self.calls} if self.calls else {"content": ""}
                await _line(connection, body, end, done=True, done_reason="length" if fault == "length" else "stop")
        await connection.end()
        return True


async def _line(connection: Connection, body: dict[str, Any], said: dict[str, Any], **more: object) -> None:
    line = {"model": body["model"], "message": {"role": "assistant", **said}, "done": False, **more}
    await connection.chunk(json.dumps(line).encode() + b"\n")


@asynccontextmanager
async def fake_ollama() -> AsyncIterator[FakeOllama]:
    """Give a running server on a free port of loopback."""
    async with running(FakeOllama()) as server:
        yield server
