"""Two texts of many kill their worker, which is killed at random, as are its readers: these two are set aside alone."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx
import msgspec
import psutil
import pytest

from shared.contracts import DEFAULT_TENANT, DocumentSubmitted, encode
from shared.ids import document_id
from shared.log.open import open_log
from shared.log.publish import publish
from shared.topics import SUBMITTED
from tests.e2e.caller import Asked
from tests.e2e.cluster import cluster
from tests.e2e.faults import rounds
from tests.e2e.harness import Server
from tests.e2e.load import new_seed
from tests.e2e.text import paragraphs
from tests.faults.deadly_texts import TO_CHUNKERS, TO_READERS
from tests.servers.kafka import KafkaServer
from tests.servers.ports import free_port

MODULE = "tests.faults.deadly_texts"
KILLS = rounds(ci=5)
BATCH = 6  # documents between two kills
SETTLED_GUARD_S = 300.0  # a hang guard
ENDED = {"created", "failed"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


class Victim(Protocol):
    """The process that dies."""

    @property
    def alive(self) -> bool: ...

    def kill(self) -> None: ...

    def family(self) -> list[psutil.Process]: ...

    def launch(self) -> None: ...

    def ready(self) -> bool: ...


class Size(NamedTuple):
    """A running Sluice."""

    asked: Asked
    worker: Victim
    log: str  # SLUICE_LOG
    data: Path


@contextmanager
def standalone(folder: Path) -> Iterator[Size]:
    server = Server(folder / "data", module=MODULE, PORT=str(free_port())).start()
    try:
        yield Size(server, server, "sqlite:", server.data)
    finally:
        server.kill()


@contextmanager
def distributed(folder: Path, kafka: KafkaServer) -> Iterator[Size]:
    log = f"kafka://{kafka.address}"
    with cluster(folder, module=MODULE, LOG=log) as running:
        yield Size(running, running.processes["ingest-worker-1"], log, running.data)


def test_given_deadly_texts_when_standalone_is_killed_as_well_then_they_alone_are_set_aside(tmp_path: Path) -> None:
    with standalone(tmp_path) as size:
        asyncio.run(they_alone_are_set_aside(size))


def test_given_deadly_texts_when_a_worker_on_kafka_is_killed_as_well_then_they_alone_are_set_aside(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    with distributed(tmp_path, kafka) as size:
        asyncio.run(they_alone_are_set_aside(size))


async def they_alone_are_set_aside(size: Size) -> None:
    rng, texts, deaths, readers = random.Random(new_seed()), dict[str, str](), 0, 0
    deadly = dict(zip(rng.sample(range(KILLS), 2), (TO_READERS, TO_CHUNKERS), strict=True))
    log = open_log(size.log, size.data)
    await log.start()
    try:
        door = log.broker("door")
        await door.start()
        for number in range(KILLS):
            batch = ["\n\n".join(paragraphs(BATCH * number + each, 3)) for each in range(BATCH)]
            if number in deadly:
                batch.insert(rng.randrange(BATCH), deadly[number])
            for text in batch:
                path = f"{len(texts)}.txt"
                id_ = document_id(DEFAULT_TENANT, "notes", path)
                texts[id_] = text
                document = DocumentSubmitted(source="notes", path=path, text=text, media_type="text/plain")
                if text not in deadly.values() and rng.random() < 0.5:  # the worker leaves pages to its readers
                    document = msgspec.structs.replace(document, text=f"<p>{text}</p>", media_type="text/html")
                await publish(door, SUBMITTED, encode(document), key=id_.encode())
            if number % 2:
                await ready_or_dead(size.worker)  # every other kill may come while it starts
            await asyncio.sleep(rng.uniform(0.1, 1.0))  # the random moments themselves
            readers += kill_readers(size.worker)
            await asyncio.sleep(rng.uniform(0.1, 0.5))
            deaths += not size.worker.alive
            size.worker.kill()
            size.worker.launch()
        await door.stop()
    finally:
        await log.stop()

    deadline = time.monotonic() + SETTLED_GUARD_S
    while not (statuses := ended(size.asked, [*texts])):
        assert time.monotonic() < deadline
        if not size.worker.alive:
            deaths += 1
            size.worker.launch()
        await asyncio.sleep(0.2)
    with size.asked.client() as client:
        letters = client.get("/ops/dead-letters?limit=100").json()["items"]
    killed = f"{KILLS} kills of the worker, {readers} of readers, {deaths} deaths by a text"
    print(f"{killed} among {len(texts)} documents; {len(letters)} letters")

    assert {letter["code"] for letter in letters} == {"KILLED_THE_WORKER"}
    told = sorted(letter["documentId"] for letter in letters)
    assert told == sorted(id_ for id_, text in texts.items() if text in deadly.values())
    assert {id_ for id_, status in statuses.items() if status == "failed"} == set(told)


async def ready_or_dead(worker: Victim) -> None:
    """Return when the worker works, or a text has killed it."""
    with suppress(AssertionError):  # it has ended by itself
        while worker.alive and not worker.ready():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


def kill_readers(worker: Victim) -> int:
    """Kill its readers, idle or in the middle of a text, and return how many there were."""
    killed = 0
    for child in worker.family()[1:]:
        with suppress(psutil.NoSuchProcess):
            if MODULE in child.cmdline():
                child.kill()
                killed += 1
    return killed


def ended(asked: Asked, ids: list[str]) -> dict[str, Any]:
    """Return each document's status; nothing while one is on its way, or nobody answers."""
    found: dict[str, Any] = {}
    try:
        with asked.client() as client:
            for id_ in ids:
                found[id_] = client.get(f"/rag/documents/{id_}").json()["status"]
    except (httpx.HTTPError, ValueError, KeyError):
        return {}
    return found if set(found.values()) <= ENDED else {}
