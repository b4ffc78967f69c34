"""A small OpenAI-compatible server on loopback, in the test's own loop: real HTTP and SSE, the faults of real ones.

Vectors come in another order than the texts, as they may; events are written as vLLM writes them, with comments and
U+2028 as it is. An error is OpenAI's object, but for those of proxies.
"""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.servers.fake_models import pieces, spoilt, vector, words
from tests.servers.loopback import Connection, LoopbackServer, running

EMBEDDING_MODEL = "BAAI/bge-m3"
CHAT_MODEL = "gpt-4o-mini"

Fault = Literal[
    "hang",
    "400",
    "401",
    "403",
    "404",
    "429",
    "500",
    "503",
    "html",
    "list",
    "half",
    "redirect",
    "few",
    "short",
    "nan",
    "null",
    "zero",
    "index",  # two vectors of one number
    "stall",  # chat: one piece, then nothing
    "error",  # chat: an error within the stream
    "undone",  # chat: the stream ends without `[DONE]`
    "length",  # chat: the answer reaches its limit
]


class FakeOpenAi(LoopbackServer):
    """The server; tests set its fields, and read `requests`, `headers` and `left`."""

    def __init__(self) -> None:
        super().__init__()
        self.key = ""
        self.context = 8192  # words and signs
        self.max_model_len: int | None = None
        self.lists = True
        self.takes_temperature = True
        self.poison: str | None = None  # a word that it refuses, by `poison_status`; with 200 its vector is all zeros
        self.poison_status = 400
        self.narrow = 0.0  # part that all vectors share: 3 gives unrelated texts cosines of 0.9, as some models do
        self.reply = "According to [1]: it is so."
        self.json_reply = '{"days": [9]}'  # where JSON is wanted

    @property
    def base(self) -> str:
        return f"{self.url}/v1"

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        refused = self._refused(path, body)
        if refused is not None:
            status, message = refused
            await connection.send(status, json.dumps({"error": {"message": message, "type": "x"}}).encode())
        elif path == "/v1/models":
            models = [{"id": name, "max_model_len": self.max_model_len} for name in (EMBEDDING_MODEL, CHAT_MODEL)]
            await connection.send(200, json.dumps({"object": "list", "data": models}).encode())
        elif path == "/v1/embeddings":
            await connection.send(200, json.dumps(self._embeddings(body)).encode(), cut=self.fault == "half")
        else:
            return await self._chat(self.json_reply if body.get("response_format") else self.reply, connection)
        return self.fault != "half"

    def _refused(self, path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if self.key and self.headers.get("authorization") != f"Bearer {self.key}":
            return 401, "Incorrect API key provided"
        if path == "/v1/models":
            return None if self.lists else (404, "Not Found")
        if body["model"] not in {EMBEDDING_MODEL, CHAT_MODEL}:
            return 404, f"The model `{body['model']}` does not exist"
        if "temperature" in body and not self.takes_temperature:
            return 400, "Unsupported value: 'temperature' does not support 0 with this model."
        texts = body.get("input") or ["\n".join(str(message["content"]) for message in body["messages"])]
        if self.poison and self.poison_status != 200 and any(self.poison in text for text in texts):
            return self.poison_status, "the input can't be processed"
        longest = max(len(words(text)) for text in texts)
        if longest > self.context:
            return 400, f"This model's maximum context length is {self.context} tokens. However, you sent {longest}."
        return None

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        vectors = spoilt([self._vector(text) for text in body["input"]], self.fault)
        if self.poison:
            vectors = [
                [0.0] * len(each) if self.poison in text else each
                for text, each in zip(body["input"], vectors, strict=True)
            ]
        data = [{"object": "embedding", "index": n, "embedding": each} for n, each in enumerate(vectors)]
        if self.fault == "index":
            data[-1]["index"] = 0
        return {"object": "list", "data": data[::-1], "model": body["model"], "usage": {"prompt_tokens": 1}}

    def _vector(self, text: str) -> list[float]:
        own = vector(text)
        return [*own, self.narrow * math.hypot(*own)] if self.narrow else own

    async def _chat(self, reply: str, connection: Connection) -> bool:
        await connection.begin("text/event-stream")
        await connection.chunk(b": keep-alive\n\n")
        await _event(connection, {"role": "assistant", "content": ""})
        for number, piece in enumerate(pieces(reply)):
            if number and self.fault in {"stall", "half", "error"}:
                break
            await _event(connection, {"content": piece})
        match self.fault:
            case "stall":
                await connection.until_left()
                return False
            case "half":
                return False
            case "error":
                await connection.chunk(b'data: {"error": {"message": "the engine died", "code": 500}}\n\n')
            case "undone":
                pass
            case fault:
                await _event(connection, {}, "length" if fault == "length" else "stop")
                await connection.chunk(b'data: {"choices": [], "usage": {"total_tokens": 9}}\n\n')
                await connection.chunk(b"data: [DONE]\n\n")
        await connection.end()
        return True


async def _event(connection: Connection, delta: dict[str, str], finish_reason: str | None = None) -> None:
    event = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}
    data = b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"
    # In two chunks, as networks cut: within a line, and within a character where there is one.
    await connection.chunk(data[: len(data) // 2])
    await connection.chunk(data[len(data) // 2 :])


@asynccontextmanager
async def fake_openai() -> AsyncIterator[FakeOpenAi]:
    """Give a running server on a free port of loopback."""
    async with running(FakeOpenAi()) as server:
        yield server
