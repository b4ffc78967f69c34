"""The store's folder is deleted under a server at work: nobody is told less than before, and the index comes back."""

import asyncio
import os
import shutil
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from qdrant_client import QdrantClient

from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from shared.ids import document_id
from shared.settings import Settings
from tests.e2e.background import Background
from tests.e2e.caller import Asked
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.faults import CHOSEN
from tests.e2e.harness import Server, served
from tests.e2e.text import paragraph
from tests.integration.pipeline import Quiet
from tests.servers.kafka import KafkaServer
from tests.servers.local_qdrant import local_qdrant

KEPT, DELETED, WRITTEN = (1000, 40, 40) if CHOSEN else (60, 8, 8)
LOST = ("", "ledger", "heads.", "chunks.") if CHOSEN else ("",)  # beginnings of collections' names; empty: all
WITHIN_S = 600.0  # a hang guard: the folder is missed after 10 s, and a rebuild takes as long as loading did


class Callers(Background):
    """Threads that search, list, ask, delete and write without a pause, and judge each answer."""

    def __init__(self, server: Asked) -> None:
        super().__init__(self._read, self._write)
        self._server = server
        self.wrong: list[str] = []
        self.answers: Counter[tuple[str, int]] = Counter()
        self.deleted: set[int] = set()

    def _note(self, what: str, reply: httpx.Response, *, well: bool, codes: tuple[int, ...] = (200, 202)) -> None:
        self.answers[what, reply.status_code] += 1
        if reply.status_code == 503:
            if not reply.headers.get("retry-after"):
                self.wrong.append(f"{what}: 503 without Retry-After")
        elif reply.status_code not in codes or not well:
            self.wrong.append(f"{what}: {reply.status_code} {reply.text[:200]}")

    def _read(self) -> None:
        number = 0
        with self._server.client() as client:
            while not self.stopping.is_set():
                number = (number + 1) % KEPT
                name = document_id("default", "kept", f"{number}.md")
                found = client.post("/rag/search", json={"query": paragraph(number, 0, 0, of=1), "topK": 5})
                hits = found.json().get("results", [])
                self._note("search", found, well=len(hits) == 5)
                listed = client.get("/rag/documents", params={"source": "kept", "limit": 1000})
                self._note("list", listed, well=len(listed.json().get("items", [])) == KEPT)
                self._note("get", client.get(f"/rag/documents/{name}"), well=True)
                chunks = client.get(f"/rag/documents/{name}/chunks")
                self._note("chunks", chunks, well=len(chunks.json().get("items", [])) == 1)

    def _write(self) -> None:
        with self._server.client() as client:
            written = 0
            while not self.stopping.is_set():
                for number in set(range(DELETED)) - self.deleted:
                    name = document_id("default", "doomed", f"{number}.md")
                    gone = client.delete(f"/rag/documents/{name}", headers={"Prefer": "wait=0"})
                    self._note("delete", gone, well=True)
                    if gone.status_code in (200, 202):
                        self.deleted.add(number)
                    break
                if written < WRITTEN:
                    body = {
                        "source": "written",
                        "path": f"{written}.md",
                        "text": paragraph(9_000 + written, 0, 0, of=1),
                    }
                    taken = client.post("/rag/ingest", json=body, headers={"Prefer": "wait=0"})
                    self._note("write", taken, well=True)
                    written += taken.status_code in (200, 202)
                self.stopping.wait(0.3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_given_readers_and_writers_when_the_store_s_folder_is_deleted_then_nobody_is_told_less_and_it_comes_back(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with served(data) as server:
        await asyncio.to_thread(_fill, server)
        async with Callers(server) as callers:
            shutil.rmtree(data / "store")
            await asyncio.to_thread(_lost_and_back, server)
        ready = server.ready()
        async with opened(Settings(data=data, samples="off")) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=60)
        with server.client() as client:
            left = client.get("/rag/documents", params={"source": "doomed", "limit": 1000}).json()["items"]

    assert ready
    _well(callers, outcome, left)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_given_kafka_and_qdrant_s_api_when_collections_are_deleted_then_nobody_is_told_less_and_they_come_back(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    given = os.environ.get("SLUICE_TEST_QDRANT_URL")
    with nullcontext(given) if given else local_qdrant() as url:
        prefix = f"lost-{uuid4().hex[:8]}."
        settings = {"LOG": f"kafka://{kafka.address}", "STORE": f"qdrant+{url}", "QDRANT_PREFIX": prefix}
        with cluster(tmp_path, ("ingest-worker", "embed-worker", "query-api"), **settings) as running:
            await asyncio.to_thread(_fill, running)
            async with Callers(running) as callers:
                for lost in LOST:
                    await asyncio.to_thread(_drop, url, prefix + lost)
                    await asyncio.to_thread(_lost_and_back, running)
            troubles = running.troubles()
            same = Settings(data=running.data, log=settings["LOG"], store=settings["STORE"], qdrant_prefix=prefix)
            async with opened(same) as parts:
                outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=60)
            with running.client() as client:
                left = client.get("/rag/documents", params={"source": "doomed", "limit": 1000}).json()["items"]

    assert troubles == {}
    _well(callers, outcome, left)


def _drop(url: str, beginning: str) -> None:
    """Delete the collections whose names begin so."""
    client = QdrantClient(url=url, check_compatibility=False)
    names = [each.name for each in client.get_collections().collections if each.name.startswith(beginning)]
    assert names, beginning
    for name in names:
        client.delete_collection(name)
    client.close()


def _well(callers: Callers, outcome: VerifyOutcome, left: list[dict[str, Any]]) -> None:
    print(f"{dict(callers.answers)}, {len(callers.deleted)} deleted")
    assert callers.wrong == []
    assert callers.answers["search", 503] > 0
    assert (outcome.report.verdict, outcome.report.first) == ("right", {})
    assert {item["path"] for item in left} == {f"{number}.md" for number in set(range(DELETED)) - callers.deleted}


def _lost_and_back(server: Server | Cluster) -> None:
    """Return when the server has missed its store, and is ready again."""
    deadline = time.monotonic() + WITHIN_S
    for ready in (False, True):
        while server.ready() is not ready and time.monotonic() < deadline:
            time.sleep(0.1)  # another process: there is nothing to await
    print(f"back after {time.monotonic() - deadline + WITHIN_S:.0f} s")


def _fill(server: Asked) -> None:
    items = [
        {"source": source, "path": f"{number}.md", "text": paragraph(number + start, 0, 0, of=1)}
        for source, count, start in (("kept", KEPT, 0), ("doomed", DELETED, 5_000))
        for number in range(count)
    ]
    with server.client(timeout=600) as client:
        for at in range(0, len(items), 100):
            reply = client.post("/rag/ingest/batch", json=items[at : at + 100], headers={"Prefer": "wait=300"})
            assert reply.status_code == 200, reply.text
