"""Outages under a trickle of load: what depends on the part waits, says so, and goes on by itself."""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.caller import TENANTS, key_of
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.faults import CHOSEN, Distributed, first_progress_s, under_load
from tests.e2e.load import new_seed
from tests.e2e.reader import HANG_S
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

LONG_S, SHORT_S = (60.0, 30.0) if CHOSEN else (15.0, 15.0)
MOST_GROWTH = 150e6  # bytes
MOST_CPU = 0.6  # of a core


@dataclass(frozen=True)
class Outage:
    """A part that is away."""

    part: str
    begin: Callable[[], None]
    end: Callable[[], object]
    seconds: float
    waiting: str  # the process whose readiness names it
    named: str  # by this check


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_given_a_part_is_away_when_it_is_back_then_work_goes_on_and_nothing_was_set_aside(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    with cluster(tmp_path, **distributed.settings) as running:
        store = running.processes["store-1"]

        def restart() -> None:
            store.launch()
            running.wait(store.name)

        outages = (
            Outage("Ollama", ollama_server.pause, ollama_server.resume, LONG_S, "embed-worker-1", "embedder"),
            Outage("broker", kafka.pause, kafka.resume, SHORT_S, "ingest-worker-1", "log"),
            Outage("store", store.kill, restart, SHORT_S, "ingest-worker-1", "store"),
        )
        with under_load(running, seed, writers=2, rest_s=0.5) as load:
            for outage in outages:
                endured(running, outage)

        distributed.nothing_wrong(running, load)


def endured(running: Cluster, outage: Outage) -> None:
    """Fail unless everybody behaves while the part is away, and works soon after."""
    memory = {name: process.memory() for name, process in running.processes.items()}
    outage.begin()
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(slowest_search, running, over)
        try:
            began, cpu = time.monotonic(), used(running)
            while (lasted := time.monotonic() - began) < outage.seconds:
                said = running.processes[outage.waiting].troubles()
                assert outage.named in said, f"{outage.waiting} names {said}, not {outage.named}"
                time.sleep(0.5)  # the outage itself
            shares = {name: (seconds - cpu[name]) / lasted for name, seconds in used(running).items()}
        finally:
            over.set()
            outage.end()
        back = first_progress_s(running)
        slowest = asking.result()
    growth = {name: process.memory() - memory[name] for name, process in running.processes.items()}
    print(f"{outage.part} away for {lasted:.0f} s: {said[outage.named]}; slowest search {slowest:.1f} s")
    print(f"  first progress {back:.1f} s after")
    for name, share in shares.items():
        print(f"  {name}: {100 * share:.0f} % of a core, {memory[name] / 1e6:.0f} MB, {growth[name] / 1e6:+.0f}")

    assert max(shares.values()) < MOST_CPU
    assert max(growth.values()) < MOST_GROWTH


def slowest_search(running: Cluster, over: threading.Event) -> float:
    """Return how long the slowest search took; fail unless each is answered, or refused with when to come again."""
    slowest = 0.0
    with running.client(timeout=HANG_S, headers=key_of(TENANTS[0])) as client:
        for number in itertools.count():
            began = time.monotonic()
            # New words each time: the vectors of known ones are kept.
            reply = client.post("/rag/search", json={"query": f"lantern {number} on the granite pier"})
            slowest = max(slowest, time.monotonic() - began)
            refused = reply.status_code == 503 and "retry-after" in reply.headers
            assert refused or reply.status_code == 200, reply.text
            if over.wait(0.5):
                return slowest
    return slowest


def used(running: Cluster) -> dict[str, float]:
    """Return the seconds of CPU of each process that runs."""
    return {name: sum(process.cpu_s().values()) for name, process in running.processes.items() if process.alive}
