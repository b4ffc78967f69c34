"""A small reranker on loopback, in the test's own loop: a score is the share of the query's words in the passage.

It speaks the shape of Cohere, Jina and vLLM, or that of text-embeddings-inference, and refuses the other one.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.servers.fake_models import words
from tests.servers.loopback import Connection, LoopbackServer, running

Shape = Literal["cohere", "tei"]
MOST_TEXTS = 32  # the largest batch that text-embeddings-inference takes by default


class FakeReranker(LoopbackServer):
    """The server; tests set its fields, and read `requests`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.key = ""
        self.model: str | None = None  # the only one it has; None: any

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        field = "documents" if self.shape == "cohere" else "texts"
        if path != "/rerank":
            status, reply = 404, {"error": "Not Found"}
        elif self.key and self.headers.get("authorization") != f"Bearer {self.key}":
            status, reply = 401, {"error": "Unauthorized"}
        elif field not in body:
            status, reply = 422, {"error": f"missing field `{field}`"}
        elif self.model is not None and body.get("model") != self.model:
            status, reply = 404, {"error": f"model {body.get('model')!r} not found"}
        elif len(body[field]) > MOST_TEXTS:
            status, reply = 413, {"error": f"batch size {len(body[field])} > maximum allowed batch size {MOST_TEXTS}"}
        else:
            status, reply = 200, self._scored(score_list(body["query"], body[field]))
        await connection.send(status, json.dumps(reply).encode())
        return True

    def _scored(self, scores: list[float]) -> Any:
        name = "relevance_score" if self.shape == "cohere" else "score"
        found = [{"index": index, name: score} for index, score in enumerate(scores)]
        found.sort(key=lambda each: -each[name])  # best first, as they do
        match self.fault:
            case "few":
                found = found[1:]
            case "null":
                found[0] = {"index": found[0]["index"]}
            case "index":
                found[0] = {**found[-1]}
        return {"id": "x", "results": found} if self.shape == "cohere" else found


def score_list(query: str, texts: list[str]) -> list[float]:
    """Return for each text the share of the query's words in it."""
    asked = set(words(query))
    return [len(asked & set(words(text))) / len(asked) for text in texts]


@asynccontextmanager
async def fake_rerank(shape: Shape = "cohere") -> AsyncIterator[FakeReranker]:
    """Give a running server on a free port of loopback."""
    async with running(FakeReranker(shape)) as server:
        yield server
