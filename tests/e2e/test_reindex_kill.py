"""`kill -9` while a generation is built and while it takes over: it goes on, and nothing is lost or doubled."""

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.settings import Settings
from shared.state.generations import registry_of
from shared.state.index import Index
from tests.e2e.faults import rounds
from tests.e2e.harness import Server
from tests.e2e.load import new_seed
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Quiet

KILLS = rounds(ci=3, here=1)  # of a build, and as many of a switch
DOCUMENTS = 40
GUARD_S = 120.0


def send(server: Server, number: int) -> None:
    text = "\n\n".join(paragraphs(number, 5))
    with server.client() as client:
        reply = client.post("/rag/ingest", json={"source": "s", "path": f"{number}.md", "text": text})
    assert reply.json()["status"] in ("created", "updated", "unchanged"), reply.text


def post(server: Server, what: str, body: dict[str, Any]) -> httpx.Response:
    with server.client() as client:
        return client.post(f"/ops/generations/{what}", json=body, headers={"Prefer": "wait=60"})


def generations(server: Server) -> dict[str, Any]:
    with server.client() as client:
        found: dict[str, Any] = client.get("/ops/generations").json()
    return found


def until_built(server: Server) -> None:
    deadline = time.monotonic() + GUARD_S
    while "building" in [each["state"] for each in generations(server)["items"]]:
        assert time.monotonic() < deadline, f"it was never built: {generations(server)} {server.tail()}"
        time.sleep(0.05)  # polling another process


def killed_during(server: Server, what: str, body: dict[str, Any], after_s: float) -> None:
    """Kill the server some time after it was asked to do something, and start it again."""
    asking = subprocess.Popen(
        [sys.executable, "-m", "services.operator_cli", "--url", server.url, "reindex", what, *body.get("more", ())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_s)  # the random moment itself
    server.kill()
    asking.wait(60)
    server.start()


async def checked(data: Path) -> tuple[list[str], list[int], str]:
    """Return each generation's verdict and number of documents, and the one that serves."""
    settings = Settings(data=data, samples="off")
    verdicts, counts = list[str](), list[int]()
    async with opened(settings) as parts:
        registry = await registry_of(parts.store)
    assert registry is not None
    for each in registry.generations:
        async with opened(settings, each.id) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=20)
            heads, _ = await Index(parts.store, parts.generation).heads_page(limit=1000)
        verdicts.append(outcome.report.verdict)
        counts.append(len(heads))
    return verdicts, counts, registry.serving


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_given_a_reindex_when_processes_are_killed_then_it_goes_on_and_one_generation_serves(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    server = Server(tmp_path / "data").start()
    try:
        for number in range(DOCUMENTS):
            send(server, number)
        first = generations(server)["serving"]

        assert post(server, "start", {"embedder": "minilm:", "chunkSize": 300}).status_code == 200
        for number in range(KILLS):
            send(server, DOCUMENTS + number)
            time.sleep(rng.uniform(0.05, 1.0))  # the random moment itself
            server.kill(everything=rng.random() < 0.5)
            server.start()
        until_built(server)
        second = next(each["id"] for each in generations(server)["items"] if each["id"] != first)

        for number in range(KILLS):
            what, target = ("switch", second) if generations(server)["serving"] == first else ("switch", first)
            killed_during(server, what, {"more": (target,)}, rng.uniform(0.5, 3.0))
            assert generations(server)["serving"] in (first, second)
            send(server, 2 * DOCUMENTS + number)
        assert post(server, "switch", {"id": second}).status_code in (200, 409)
        send(server, 3 * DOCUMENTS)
        deadline = time.monotonic() + GUARD_S
        while "switching" in generations(server):
            assert time.monotonic() < deadline, json.dumps(generations(server))
            time.sleep(0.05)  # polling another process
        verdicts, counts, serving = asyncio.run(checked(server.data))
    finally:
        server.kill()

    assert verdicts == ["right", "right"]
    assert serving in (first, second)
    assert counts == [DOCUMENTS + 2 * KILLS + 1] * 2
