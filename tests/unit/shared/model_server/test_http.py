import asyncio
import gzip
import json
import time
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from pydantic import SecretStr

from shared.answers import Conversation, Turn
from shared.answers.ollama import OllamaAnswers
from shared.answers.openai import OpenAiAnswers
from shared.embedder.ollama import OllamaModel
from shared.embedder.openai import OpenAiModel
from shared.errors import Unavailable
from shared.model_server.http import MOST_ANSWER, BadAnswer, TooLong, client_with_key, refusal
from shared.model_server.ollama import ollama_address
from shared.model_server.openai import OpenAiAddress, OpenAiServer
from shared.reranker.served import ServedReranker, rerank_address
from shared.settings import ConfigurationError
from tests.servers.loopback import Connection, LoopbackServer, running

OLLAMA = "the input length exceeds the context length"
OLDER_OLLAMA = "input length exceeds maximum context length"
OPENAI = "This model's maximum context length is 8192 tokens, however you requested 10010 tokens"
OPENAI_BATCH = "Invalid 'input': maximum request size is 300000 tokens per request. Requested 301234, max 300000 tokens"
LLAMA_CPP = "input is too large to process. increase the physical batch size"
LLAMA_CPP_CHAT = "the request exceeds the available context size, try increasing it"
TEI = "Input validation error: `inputs` must have less than 512 tokens. Given: 1205"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, OLLAMA),
        (400, OLDER_OLLAMA),
        (400, OPENAI),
        (400, OPENAI_BATCH),
        (400, LLAMA_CPP_CHAT),
        (500, LLAMA_CPP),
        (422, TEI),
        (413, TEI),
        (413, "<html>413 Request Entity Too Large</html>"),
    ],
)
def test_every_server_s_too_long_is_understood(status: int, reason: str) -> None:
    assert isinstance(refusal("it", status, reason), TooLong)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "embedding contains NaN or Inf values"),
        (400, "invalid input type"),
        (400, "'input' is required"),
        (401, "Incorrect API key provided"),
        (404, "model not found"),
        (500, "model requires more system memory (9.1 GiB) than is available (2.2 GiB)"),
        (500, "failed to allocate the context window"),
        (500, 'do embedding request: Post "http://127.0.0.1:1/embedding": EOF'),
    ],
)
def test_any_other_refusal_is_a_bad_answer_with_its_status(status: int, reason: str) -> None:
    error = refusal("the server", status, reason)

    assert isinstance(error, BadAnswer)
    assert (error.status, error.sentence) == (status, f"the server answered {status}: {reason}")


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_busy_server_is_no_text_s_fault(status: int) -> None:
    error = refusal("the server", status, OLLAMA)

    assert type(error) is Unavailable


def test_a_page_for_a_reason_is_shortened_and_none_is_named() -> None:
    assert str(refusal("it", 500, "\n ")) == "it answered 500: no reason given"
    assert len(str(refusal("it", 500, "word\n" * 1000))) < 250


async def test_the_key_is_sent_without_the_white_space_around_it() -> None:
    async with client_with_key("SLUICE_OPENAI_API_KEY", SecretStr(" sk-1\n"), 9.0) as client:
        assert client.headers["authorization"] == "Bearer sk-1"
        assert (client.timeout.read, client.timeout.connect) == (9.0, 5.0)


async def test_without_a_key_none_is_sent() -> None:
    async with client_with_key("SLUICE_OPENAI_API_KEY", SecretStr(""), 1.0) as client:
        assert "authorization" not in client.headers
        assert client.timeout.connect == 1.0


def test_a_key_that_is_no_header_value_is_refused_by_the_setting_s_name() -> None:
    with pytest.raises(ConfigurationError, match=r"SLUICE_RERANK_API_KEY has a character"):
        client_with_key("SLUICE_RERANK_API_KEY", SecretStr("kéy"), 1.0)


@cache
def packed_blanks() -> bytes:
    return gzip.compress(b" " * (MOST_ANSWER + 1), 1)


class _Large(LoopbackServer):
    """Answers anything with blanks without end, or packed ones that are a byte too many."""

    def __init__(self, *, packed: bool) -> None:
        super().__init__()
        self._packed = packed
        self.sent = 0

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        if self._packed:
            await connection.send(200, packed_blanks(), "content-encoding: gzip")
            return True
        part = b" " * (1 << 20)
        await connection.begin("application/json")
        while self.sent < 4 * MOST_ANSWER:
            await connection.chunk(part)
            self.sent += len(part)
        await connection.end()
        return True


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["openai", "ollama", "rerank", "events"])
async def test_an_answer_without_end_is_left(kind: str, *, packed: bool) -> None:
    async with running(_Large(packed=packed)) as server:
        address, key = OpenAiAddress(f"{server.url}/v1", "m"), SecretStr("")

        async def ask() -> None:
            if kind == "openai":
                await OpenAiModel(OpenAiServer(address, key, 60.0)).embed(["a"])
            elif kind == "ollama":
                await OllamaModel(ollama_address("X", f"ollama://{server.host}/m"), 60.0).ping()
            elif kind == "rerank":
                await ServedReranker(rerank_address("X", f"{server.url}/rerank"), key, 60.0).scores("q", ["a"])
            else:
                async for _ in OpenAiServer(address, key, 60.0).events("/chat/completions", {}, dict[str, Any]):
                    pass

        with pytest.raises(BadAnswer, match=f"invalid answer: it has more than {MOST_ANSWER >> 20} MB"):
            await ask()

        assert server.sent < 3 * MOST_ANSWER


@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_others_have_their_turn_within_an_answer_that_comes_at_once(kind: str) -> None:
    lines = 4_000
    event = (
        b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
        if kind == "openai"
        else b'{"message":{"role":"assistant","content":"x"}}\n'
    )

    class Hasty(LoopbackServer):
        async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
            await connection.send(200, event * lines)
            return True

    async with running(Hasty()) as server:
        answers: OpenAiAnswers | OllamaAnswers = (
            OpenAiAnswers(OpenAiAddress(f"{server.url}/v1", "m"), SecretStr(""))
            if kind == "openai"
            else OllamaAnswers(ollama_address("X", f"ollama://{server.host}/m"))
        )
        turns, seen = list[int](), 0

        async def others() -> None:
            while True:
                turns.append(seen)
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        with suppress(Unavailable):  # the stream has no end of its protocol's
            async for _ in answers.stream(Conversation(turns=(Turn(role="user", content="?"),))):
                seen += 1
                busy_until = time.thread_time() + 20e-6
                while time.thread_time() < busy_until:
                    pass
        beside.cancel()

    assert seen > lines
    assert max(after - before for before, after in pairwise(turns)) <= 400  # events that hold up the others


async def test_a_packed_answer_is_read() -> None:
    class Packed(LoopbackServer):
        async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
            data = json.dumps({"data": [{"index": 0, "embedding": [1.0]}]}).encode()
            await connection.send(200, gzip.compress(data), "content-encoding: gzip")
            return True

    async with running(Packed()) as server:
        model = OpenAiModel(OpenAiServer(OpenAiAddress(f"{server.url}/v1", "m"), SecretStr(""), 60.0))

        assert await model.embed(["a"]) == [[1.0]]
        await model.close()


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd"])
async def test_an_answer_packed_otherwise_than_asked_is_refused_before_it_is_unpacked(coding: str) -> None:
    class Packed(LoopbackServer):
        async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
            await connection.send(200, gzip.compress(gzip.compress(b" " * 1000)), f"content-encoding: {coding}")
            return True

    async with running(Packed()) as server:
        model = OpenAiModel(OpenAiServer(OpenAiAddress(f"{server.url}/v1", "m"), SecretStr(""), 60.0))

        with pytest.raises(BadAnswer, match=f"invalid answer: it is packed as {coding}, and gzip was asked for"):
            await model.embed(["a"])
        await model.close()
