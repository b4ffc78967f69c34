"""A file whose reader used up its CPU time is read once, whichever door it came by: it would use it up again."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from services.ingest_worker import parsers
from services.ingest_worker.parsers import ParserPool
from services.query_api.app import make_api
from shared.contracts import DeadLetter
from shared.topics import SUBMITTED
from tests.integration.pipeline import Pipeline, running
from tests.selection import CI_ONLY
from tests.servers import loopback
from tests.servers.website import Answer, Website

CPU_S, HANG_S = 0.3, 100

pytestmark = CI_ONLY


def _file(command: str, touched: Path) -> bytes:
    # Too large to be read in the worker itself.
    return f"ROUGH {command} {touched} 0 ".encode() + b"." * (65 * 1024)


async def _upload(pipeline: Pipeline, body: bytes) -> None:
    transport = httpx.ASGITransport(cast("Any", make_api(pipeline.parts)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        params, headers = {"source": "s", "path": "x.rough"}, {"Prefer": "wait=0"}
        (await client.post("/rag/ingest/upload", params=params, content=body, headers=headers)).raise_for_status()


async def _url(pipeline: Pipeline, body: bytes) -> None:
    async with loopback.running(Website({"/x.rough": Answer(body, headers=())})) as website:
        value = json.dumps({"source": "s", "path": "x.rough", "url": f"{website.url}/x.rough"}).encode()
        await pipeline.parts.publish(SUBMITTED, value, key=b"url")
        await _letter(pipeline)


async def _kafka(pipeline: Pipeline, body: bytes) -> None:
    """Send it as a foreign producer does, under a key of its own."""
    value = json.dumps({"source": "s", "path": "x.rough", "text": body.decode()}).encode()
    await pipeline.parts.publish(SUBMITTED, value, key=b"a key of its own")


DOORS: dict[str, Callable[[Pipeline, bytes], Awaitable[None]]] = {"upload": _upload, "url": _url, "kafka": _kafka}


async def _letter(pipeline: Pipeline) -> DeadLetter:
    async with asyncio.timeout(HANG_S):
        while not (letters := await pipeline.dead_letters()):  # noqa: ASYNC110 - another topic
            await asyncio.sleep(0.1)
    return letters[0]


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Pipeline]]]:
    """Give a function that starts the stages with rough parsers of a wall-clock factor."""
    async with AsyncExitStack() as stack:

        async def started(wall_factor: float) -> Pipeline:
            pool = partial(
                ParserPool,
                program="tests.integration.rough_parser",
                cpu_s=CPU_S,
                wall_factor=wall_factor,
                again_s=0.0,
            )
            # Its readers write notes, so they aren't confined.
            monkeypatch.setattr(
                parsers, "ParserPool", lambda size, **limits: pool(size, **limits | {"confined": False})
            )
            allow = {"fetch_allow": "127.0.0.1", "fetch_delay": 0.0}
            return await stack.enter_async_context(running(tmp_path / "data", partitions=1, **allow))

        yield started


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("command", "wall_factor", "tries"),
    [("spin", 1000.0, 1), ("hang", 2.0, 3)],
    ids=["its CPU time is used up", "the clock ran out"],
)
async def test_what_used_up_its_cpu_time_is_tried_once(
    start: Callable[..., Awaitable[Pipeline]], tmp_path: Path, door: str, command: str, wall_factor: float, tries: int
) -> None:
    pipeline = await start(wall_factor)

    await DOORS[door](pipeline, _file(command, tmp_path / "begun"))

    letter = await _letter(pipeline)
    assert (tmp_path / "begun").exists()
    assert (letter.code, letter.attempts) == ("timeout", tries)
