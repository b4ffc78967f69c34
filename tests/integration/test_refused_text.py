"""One text that the model's server refuses among many documents, through all stages, at both sizes."""

import asyncio
import os
import time
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.contracts import DocumentSubmitted
from shared.runtime.probes import Detail
from tests.contract.kafka_harness import empty
from tests.contract.logs import until
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY
from tests.servers import fake_ollama, fake_openai
from tests.servers.fake_ollama import FakeOllama
from tests.servers.fake_openai import FakeOpenAi

COUNT = os.environ.get("SLUICE_TEST_COUNT")  # in the long run; the bar's is 300
DOCUMENTS = int(COUNT or 24)
PARTITIONS = 8
HANG_S = 120.0


@pytest.fixture
async def log(request: pytest.FixtureRequest, kind: str) -> Mapping[str, str]:
    """Give the settings of the log, empty."""
    if kind == "sqlite":
        return {}
    address = request.getfixturevalue("kafka_address")
    await empty(address)
    return {"log": f"kafka://{address}"}


async def pipeline_on(
    server: FakeOllama | FakeOpenAi, folder: Path, log: Mapping[str, str], users: AsyncExitStack
) -> Pipeline:
    host = server.url.removeprefix("http://")
    if isinstance(server, FakeOllama):
        embedder = f"ollama://{host}/{fake_ollama.EMBEDDING_MODEL}"
    else:
        embedder = f"openai+http://{host}/v1/{fake_openai.EMBEDDING_MODEL}"
    return await users.enter_async_context(running(folder, embedder=embedder, partitions=PARTITIONS, **log))


def document(number: int, text: str = "It goes in like every other.") -> DocumentSubmitted:
    return DocumentSubmitted(source="load", path=f"{number}.md", text=f"# Document {number}\n\n{text}")


async def troubles(pipeline: Pipeline) -> dict[str, str]:
    checks = await pipeline.parts.readiness()
    return {name: said for name, said in checks.items() if said is not None and not isinstance(said, Detail)}


async def details(pipeline: Pipeline) -> list[str]:
    return [said for said in (await pipeline.parts.readiness()).values() if isinstance(said, Detail)]


WAYS = {
    "500": ("ollama", 500, "answered 500: failed to encode response: json: unsupported value: NaN"),
    "400": ("openai", 400, "answered 400: the input can't be processed"),
    "zeros": ("openai", 200, "returned a damaged vector"),
}


@CI_ONLY
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("sqlite", way) for way in WAYS),
        *(pytest.param("kafka", way, marks=pytest.mark.server) for way in WAYS if COUNT or way == "500"),
    ],
)
async def test_one_refused_text_is_one_dead_letter_and_holds_up_nobody(
    way: str, log: Mapping[str, str], tmp_path: Path, users: AsyncExitStack
) -> None:
    made_by, status, words = WAYS[way]
    server: FakeOllama | FakeOpenAi
    if made_by == "ollama":
        server = await users.enter_async_context(fake_ollama.fake_ollama())
    else:
        server = await users.enter_async_context(fake_openai.fake_openai())
        server.poison_status = status
    server.poison = "cursed"
    pipeline = await pipeline_on(server, tmp_path, log, users)

    began = time.monotonic()
    refused = asyncio.create_task(pipeline.send(document(-1, "It is cursed."), HANG_S))
    others = [asyncio.create_task(pipeline.send(document(number), HANG_S)) for number in range(DOCUMENTS - 1)]
    await until(lambda: _any(details(pipeline)))
    said, red = await details(pipeline), await troubles(pipeline)
    ended = await asyncio.gather(*others)
    took = time.monotonic() - began
    failed = await refused
    print(f"{len(ended)} ended after {took:.1f} s, the refused one after {time.monotonic() - began:.1f} s")

    assert {entry.last.status for entry in ended} == {"created"}
    assert red == {}
    assert "records that wait or are tried again: 1, first: " in said[0]
    assert (failed.last.status, failed.last.code) == ("failed", "model_refuses")
    (letter,) = await pipeline.dead_letters()
    assert (letter.stage, letter.code, letter.document_id) == ("embed", "model_refuses", failed.document_id)
    assert words in letter.sentence
    assert await pipeline.points(failed.document_id) == 0
    assert (await troubles(pipeline), await details(pipeline)) == ({}, [])


@CI_ONLY
@pytest.mark.slow
async def test_a_server_that_refuses_every_long_text_sets_nothing_aside(tmp_path: Path, users: AsyncExitStack) -> None:
    server = await users.enter_async_context(fake_ollama.fake_ollama())
    server.stumbles_from = 40
    pipeline = await pipeline_on(server, tmp_path, {}, users)
    long = [document(number, "One word more. " * 12) for number in range(6)]

    short = await pipeline.send(document(9), HANG_S)
    waiting = [asyncio.create_task(pipeline.send(each, HANG_S)) for each in long]
    # Each has been refused more often than the text's fault would take.
    await until(lambda: sum(path == "/api/embed" for path, _ in server.requests) > 60)
    red, letters = await troubles(pipeline), await pipeline.dead_letters()
    server.stumbles_from = None
    ended = await asyncio.gather(*waiting)

    assert short.last.status == "created"
    assert any(WAYS["500"][2] in said for said in red.values())
    assert letters == []
    assert {entry.last.status for entry in ended} == {"created"}


async def _any(found: Awaitable[list[str]]) -> bool:
    return bool(await found)
