"""What tests of faults have in common: how often, a load meanwhile, and the oracle once all is quiet."""

import asyncio
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shared.contracts import DocumentSubmitted, decode
from shared.embedder import Embedder
from shared.embedder.ollama import ollama_embedder
from shared.log import Log
from shared.log.open import open_log
from shared.model_server.ollama import ollama_address
from shared.submission import submission_of
from shared.topics import SUBMITTED
from tests.e2e.caller import API_KEYS, TENANTS, Asked, key_of
from tests.e2e.cluster import Cluster, Process, servers
from tests.e2e.harness import Server
from tests.e2e.load import Load
from tests.e2e.oracle import QUIET_GUARD_S, Alike, differences, nearly
from tests.integration.pipeline import records_of
from tests.selection import IN_CI
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

COMMIT_GUARD_S = 90.0  # a hang guard: nine times what it may take
PROGRESS_GUARD_S = 50.0  # as above: five times
CHOSEN = os.environ.get("SLUICE_TEST_COUNT")  # how many faults to make, in the long run; empty: it isn't one
DONE = "sluice_records_handled_total"


def rounds(ci: int, here: int | None = None) -> int:
    """Return how many faults to make: SLUICE_TEST_COUNT, else by where the tests run, if it isn't in CI alone."""
    return int(CHOSEN or (ci if IN_CI or here is None else here))


@contextmanager
def under_load(running: Asked, seed: int, *, writers: int = 3, rest_s: float = 0.0) -> Iterator[Load]:
    """Write and read while the block runs, which begins when something has been written and read."""
    with running.client() as client:
        assert client.get("/rag/documents").status_code == 401, "a load is of two tenants: start it with API_KEYS"
    load = Load(running, documents=12, seed=seed, tenants=TENANTS)
    try:
        load.start(writers=writers, rest_s=rest_s)
        deadline = time.monotonic() + 60
        while not (load.writes and load.reads):
            assert time.monotonic() < deadline, f"{load.writes} writes, {load.reads} reads: {load.faults}"
            time.sleep(0.05)  # threads: there is nothing to await
        yield load
    finally:
        load.stop()


def first_progress_s(running: Cluster) -> float:
    """Return after how many seconds a version more is done."""
    [worker] = running.of("embed-worker")
    began, before = time.monotonic(), worker.metric(DONE)
    while worker.metric(DONE) == before:
        assert time.monotonic() - began < PROGRESS_GUARD_S, f"no progress: {worker.tail()}"
        time.sleep(0.05)  # another process: there is nothing to await
    return time.monotonic() - began


class Restarts:
    """How long starts under load took, from exec."""

    def __init__(self) -> None:
        self.ready: list[float] = []  # seconds
        self.done: list[float] = []  # seconds to the first record done; its commit follows in a twentieth of one

    def watch(self, *processes: Server | Process) -> None:
        """Return when these, which were just launched, are ready, and have done a record if they work on any."""
        deadline = time.monotonic() + COMMIT_GUARD_S
        for process in processes:
            while not process.ready():
                assert time.monotonic() < deadline, f"not ready after {COMMIT_GUARD_S:g} s: {process.tail()}"
                time.sleep(0.02)  # another process: there is nothing to await
            self.ready.append(time.monotonic() - process.launched)
        for process in processes:
            if isinstance(process, Process) and not process.role.endswith("worker"):
                continue
            while not process.metric(DONE):
                assert time.monotonic() < deadline, f"nothing done after {COMMIT_GUARD_S:g} s: {process.tail()}"
                time.sleep(0.02)  # as above
            self.done.append(time.monotonic() - process.launched)

    def __str__(self) -> str:
        return f"restarts under load: ready {figures(self.ready)}; first record done {figures(self.done)}"


def figures(seconds: Sequence[float]) -> str:
    """Return the median and the 95th percentile in words."""
    if len(seconds) < 2:
        return ", ".join(f"{each:.1f} s" for each in seconds) or "not seen"
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return f"median {statistics.median(seconds):.1f} s, p95 {p95:.1f} s of {len(seconds)}"


def nothing_wrong(
    running: Cluster,
    load: Load,
    embedder: Callable[[], Embedder | None] = lambda: None,
    alike: Alike | None = None,
    log: str = "sqlite:",
) -> None:
    """Settle the load, which has stopped, and fail unless the index is what it says, and no reader saw else."""

    def look(quiet_s: float) -> list[str]:
        how = {} if alike is None else {"alike": alike}
        store = running.data / "store"
        return asyncio.run(
            differences(store, load.expected, embedder(), described=load.described, quiet_s=quiet_s, **how)
        )

    load.settle()
    wrong = look(quiet_s=3.0)
    if wrong:
        # What a kill in the middle of a version left behind is a sweep's to take, and a start sweeps.
        print(f"left to the sweep: {wrong}")
        running.wait(running.launch("embed-worker").name)
        wrong = look(QUIET_GUARD_S)
    print(load)

    assert load.faults == []
    assert wrong == []
    assert asyncio.run(not_on_the_log(open_log(log, running.data), load)) == []
    assert dead_letters(running) == []


async def not_on_the_log(log: Log, load: Load) -> list[str]:
    """Return what was answered 200 or 202 though the log, which isn't started yet, hasn't got it."""
    await log.start()
    try:
        submitted = [submission_of(record) for record in await records_of(log, SUBMITTED)]
    finally:
        await log.stop()
    deleted = Counter(each.document_id for each in submitted if each.deleted)
    return sorted(load.marks - {each.hash for each in submitted}) + sorted((load.deletions - deleted).elements())


def dead_letters(running: Asked) -> list[object]:
    """Return all that was set aside."""
    items: list[object] = []
    with running.client() as client:
        for tenant in TENANTS:
            reply = client.get("/ops/dead-letters", headers=key_of(tenant))
            assert reply.status_code == 200, reply.text
            items += reply.json()["items"]
    return items


class Distributed:
    """The settings of a cluster on a test's own Kafka and Ollama, and the judge of what it has made."""

    def __init__(self, kafka: KafkaServer, ollama: OllamaServer) -> None:
        self.kafka = kafka
        self.ollama = ollama
        self.settings = servers(kafka.address, ollama.url) | {"API_KEYS": API_KEYS}

    @property
    def with_names(self) -> dict[str, str]:
        """Return the same, for members with names: one that comes back gets its partitions again at once."""
        return self.settings | {"LOG": f"{self.settings['LOG']}?group_instance_id={{process}}"}

    def nothing_wrong(self, running: Cluster, load: Load) -> None:
        """As the function of that name, with the vectors that Ollama itself gives."""
        address = ollama_address("SLUICE_EMBEDDER", self.settings["EMBEDDER"])
        nothing_wrong(running, load, lambda: ollama_embedder(address), nearly, log=self.settings["LOG"])


async def submitted(data: Path) -> Counter[str]:
    """Return how often the log has each path."""
    log = open_log("sqlite:", data)
    await log.start()
    try:
        return Counter(decode(record.value, DocumentSubmitted).path for record in await records_of(log, SUBMITTED))
    finally:
        await log.stop()
