"""What tests of faults have in common: how often, a load meanwhile, and the oracle once all is quiet."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.embedder import Embedder
from shared.embedder.ollama import ollama_embedder
from shared.ollama_server import ollama_address
from tests.e2e.cluster import Cluster, servers
from tests.e2e.load import Load
from tests.e2e.oracle import QUIET_GUARD_S, Alike, differences, nearly
from tests.servers.cache import IN_CI
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

Kill = Callable[[], None]
Start = Callable[[], object]


def rounds(ci: int, here: int) -> int:
    """Return how many faults to make: SLUICE_TEST_COUNT, else by where the tests run."""
    return int(os.environ.get("SLUICE_TEST_COUNT") or (ci if IN_CI else here))


@contextmanager
def under_load(running: Cluster, seed: int, *, writers: int = 3, rest_s: float = 0.0) -> Iterator[Load]:
    """Write and read while the block runs, which begins when something has been written and read."""
    load = Load(running, documents=12, seed=seed)
    try:
        load.start(writers=writers, readers=2, rest_s=rest_s)
        deadline = time.monotonic() + 60
        while not (load.writes and load.reads):
            assert time.monotonic() < deadline, f"{load.writes} writes, {load.reads} reads: {load.faults}"
            time.sleep(0.05)  # threads: there is nothing to await
        yield load
    finally:
        load.stop()


def kill_one_by_one(victims: dict[str, tuple[Kill, Start]], count: int, rng: random.Random, running: Cluster) -> None:
    """Kill so many in a random order that takes each before one comes again; start each again, soon."""
    order: list[str] = []
    while len(order) < count:
        order += rng.sample(sorted(victims), len(victims))
    for name in order[:count]:
        kill, start = victims[name]
        time.sleep(rng.uniform(0.2, 2.5))  # the random moment itself
        kill()
        killed = time.monotonic()
        time.sleep(rng.uniform(0.0, 1.0))
        start()
        if rng.random() < 0.7:  # else the next one dies while this one still starts
            running.wait()
            print(f"{name} killed: all ready again after {time.monotonic() - killed:.1f} s")
    running.wait()


def processes(running: Cluster, *names: str) -> dict[str, tuple[Kill, Start]]:
    """Return how to kill and start these processes."""
    return {name: (running.processes[name].kill, running.processes[name].launch) for name in names}


def nothing_wrong(
    running: Cluster, load: Load, embedder: Callable[[], Embedder | None] = lambda: None, alike: Alike | None = None
) -> None:
    """Settle the load, which has stopped, and fail unless the index is what it says, and no reader saw else."""

    def look(quiet_s: float) -> list[str]:
        how = {} if alike is None else {"alike": alike}
        return asyncio.run(differences(running.data / "store", load.expected, embedder(), quiet_s=quiet_s, **how))

    load.settle()
    wrong = look(quiet_s=3.0)
    if wrong:
        # What a kill in the middle of a version left behind is a sweep's to take, and a start sweeps.
        print(f"left to the sweep: {wrong}")
        running.wait(running.launch("embed-worker").name)
        wrong = look(QUIET_GUARD_S)
    print(f"{load.taken} writes taken, {load.writes} waited for; {load.reads} reads, {load.refusals} searches refused")

    assert load.faults == []
    assert wrong == []
    assert dead_letters(running) == []


def dead_letters(running: Cluster) -> list[object]:
    """Return all that was set aside."""
    with running.client() as client:
        reply = client.get("/ops/dead-letters")
    assert reply.status_code == 200, reply.text
    items: list[object] = reply.json()["items"]
    return items


class Distributed:
    """The settings of a cluster on a test's own Kafka and Ollama, and the judge of what it has made."""

    def __init__(self, kafka: KafkaServer, ollama: OllamaServer) -> None:
        self.kafka = kafka
        self.ollama = ollama
        self.settings = servers(kafka.address, ollama.url)

    def nothing_wrong(self, running: Cluster, load: Load) -> None:
        """As the function of that name, with the vectors that Ollama itself gives."""
        address = ollama_address("SLUICE_EMBEDDER", self.settings["EMBEDDER"])
        nothing_wrong(running, load, lambda: ollama_embedder(address), nearly)
