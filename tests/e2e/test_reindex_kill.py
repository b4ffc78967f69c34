"""`kill -9` while a generation is built and while it takes over: it goes on, and nothing is lost or doubled."""

import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.ids import document_id
from shared.settings import Settings
from shared.state.generations import registry_of
from shared.state.index import Index
from shared.times import iso
from tests.e2e.background import Background
from tests.e2e.caller import Asked
from tests.e2e.cluster import PROCESSES, Cluster, cluster
from tests.e2e.faults import rounds
from tests.e2e.harness import Server
from tests.e2e.load import new_seed
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Quiet, points_of
from tests.servers.kafka import KafkaServer

KILLS = rounds(ci=1)  # of a build, and as many of a switch
DOCUMENTS = 40
GUARD_S = 120.0


class SteadySearch(Background):
    """Searches for a document that always exists. It is missing if no generation serves, and repeated if two do."""

    def __init__(self, server: Asked) -> None:
        super().__init__(self._search)
        self._server = server
        self.answers = 0
        self.wrong: list[str] = []

    def _search(self) -> None:
        while not self.stopping.wait(0.05):
            with suppress(httpx.HTTPError), self._server.client(timeout=20) as client:
                reply = client.post("/rag/search", json={"query": paragraphs(0, 5)[0], "topK": 10})
                if reply.status_code == 503:
                    continue
                hits = reply.json().get("results", [])
                self.answers += 1
                texts = [hit["text"] for hit in hits]
                if "0.md" not in [hit["metadata"]["path"] for hit in hits] or len(texts) != len(set(texts)):
                    self.wrong.append(f"{reply.status_code} {reply.text[:500]}")


def send(server: Asked, number: int) -> None:
    text = "\n\n".join(paragraphs(number, 5))
    with server.client() as client:
        reply = client.post("/rag/ingest", json={"source": "s", "path": f"{number}.md", "text": text})
    assert reply.json()["status"] in ("created", "updated", "unchanged"), reply.text


def post(server: Asked, what: str, body: dict[str, Any]) -> httpx.Response:
    with server.client() as client:
        return client.post(f"/ops/generations/{what}", json=body, headers={"Prefer": "wait=60"})


def generations(server: Asked) -> dict[str, Any]:
    with server.client() as client:
        found: dict[str, Any] = client.get("/ops/generations").json()
    return found


def until(server: Asked, done: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + GUARD_S
    while not done(found := generations(server)):
        assert time.monotonic() < deadline, f"it never came to that: {json.dumps(found)}"
        time.sleep(0.05)  # polling another process


def built(found: dict[str, Any]) -> bool:
    return "building" not in [each["state"] for each in found["items"]]


@contextmanager
def asked_to(server: Server | Cluster, *command: str) -> Iterator[None]:
    """Ask for something while the block runs, which kills; who asked is gone afterwards."""
    asking = subprocess.Popen(
        [sys.executable, "-m", "services.operator_cli", "--url", server.url, "reindex", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        asking.kill()
        asking.wait(60)


async def checked(settings: Settings) -> tuple[list[str], list[int], str]:
    """Return each generation's verdict and number of documents, and the one that serves."""
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


def told(server: Server | Cluster, kill: Callable[[], None], rng: random.Random) -> tuple[list[str], int]:
    """Tell the story: a build and switches, each killed so often; return both generations and the documents sent."""
    for number in range(DOCUMENTS):
        send(server, number)
    first = generations(server)["serving"]
    with SteadySearch(server) as watch:
        assert post(server, "start", {"embedder": "minilm:", "chunkSize": 300}).status_code == 200
        for number in range(KILLS):
            send(server, DOCUMENTS + number)
            time.sleep(rng.uniform(0.05, 1.0))  # the random moment itself
            kill()
        until(server, built)
        second = next(each["id"] for each in generations(server)["items"] if each["id"] != first)

        for number in range(KILLS):
            target = second if generations(server)["serving"] == first else first
            with asked_to(server, "switch", target, "--force", "--yes"):
                time.sleep(rng.uniform(0.5, 3.0))  # the random moment itself
                kill()
            assert generations(server)["serving"] in (first, second)
            send(server, DOCUMENTS + KILLS + number)
        assert post(server, "switch", {"id": second, "force": True}).status_code in (200, 409)
        send(server, DOCUMENTS + 2 * KILLS)
        until(server, lambda found: "switching" not in found)
    print(f"{2 * KILLS} kills, {watch.answers} searches answered")
    assert watch.wrong == []
    assert watch.answers > 0
    return [first, second], DOCUMENTS + 2 * KILLS + 1


def told_of_the_past(
    server: Server | Cluster, settings: Settings, kill: Callable[[], None], rng: random.Random, documents: int
) -> None:
    """Build an index of a moment while processes are killed; it is what the index was then, but for what was erased."""
    then = asyncio.run(points_of(settings))
    moment = iso(int(time.time() * 1000))
    edited, deleted, erased = (document_id("default", "s", f"{number}.md") for number in (0, 1, 2))
    with server.client() as client:
        changed = {"source": "s", "path": "0.md", "text": "It has other words since."}
        assert client.post("/rag/ingest", json=changed).json()["status"] == "updated"
        assert client.delete(f"/rag/documents/{deleted}").status_code == 200
        gone = client.post("/ops/erase", json={"documentIds": [erased]}, headers={"Prefer": "wait=60"})
        assert [each["outcome"] for each in gone.json()["items"]] == ["erased"], gone.text
    plan = post(server, "start", {"asOf": moment, "embedder": "minilm:", "chunkSize": 300, "limitRate": 20})
    assert plan.status_code == 200, plan.text
    for _ in range(max(KILLS // 2, 1)):
        time.sleep(rng.uniform(0.05, 1.0))  # the random moment itself
        kill()
    past = plan.json()["id"]
    until(server, lambda found: [each["state"] for each in found["items"] if each["id"] == past] == ["past"])

    shown = asyncio.run(points_of(settings, past))
    assert shown == {id_: point for id_, point in then.items() if point[0]["metadata"]["documentId"] != erased}
    assert {edited, deleted} <= {point[0]["metadata"]["documentId"] for point in shown.values()}
    verdicts, counts, _ = asyncio.run(checked(settings))
    assert (verdicts, counts) == (["right"] * 3, [documents] * 3)


def judged(settings: Settings, ids: list[str], sent: int) -> None:
    verdicts, counts, serving = asyncio.run(checked(settings))
    assert verdicts == ["right", "right"]
    assert serving in ids
    assert counts == [sent] * 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_given_a_reindex_when_processes_are_killed_then_it_goes_on_and_one_generation_serves(tmp_path: Path) -> None:
    rng = random.Random(new_seed())
    server = Server(tmp_path / "data").start()

    def kill() -> None:
        server.kill(everything=rng.random() < 0.5)
        server.start()

    try:
        ids, sent = told(server, kill, rng)
        settings = Settings(data=server.data, samples="off")
        judged(settings, ids, sent)
        told_of_the_past(server, settings, kill, rng, sent)
    finally:
        server.kill()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_given_kafka_when_processes_are_killed_during_a_reindex_then_it_goes_on_and_one_generation_serves(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    rng, log = random.Random(new_seed()), f"kafka://{kafka.address}"
    with cluster(tmp_path, LOG=f"{log}?group_instance_id={{process}}") as running:
        turns = itertools.cycle([*PROCESSES, "all"])

        def kill() -> None:
            name = next(turns)
            victims = [*running.processes.values()] if name == "all" else [running.processes[name]]
            for each in victims:
                each.kill()
            for each in victims:
                each.launch()
            running.wait()

        ids, sent = told(running, kill, rng)
        settings = Settings(data=running.data, log=log, samples="off")
        judged(settings, ids, sent)
        told_of_the_past(running, settings, kill, rng, sent)
