"""A soak: a mixed load on a corpus that stays as large, a fault every half minute, and nothing that grows."""

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.e2e.cluster import ROLES, Cluster, cluster
from tests.e2e.faults import Distributed, rounds, under_load
from tests.e2e.growth import Sample, grown, sample
from tests.e2e.load import new_seed
from tests.selection import LONG_RUN_ONLY
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

EVERY_S = 30.0  # a fault
SLICE = 15  # faults: about ten minutes
SAMPLE_S = 2.0
SPARES = ("ingest-worker-2", "embed-worker-2")  # they die; the others live through all of it, and are measured


@LONG_RUN_ONLY  # make chaos FAULT=soak
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_given_hours_of_load_and_faults_when_measured_then_nothing_grows(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    count = SLICE * rounds(ci=1)
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    rng = random.Random(seed)
    with cluster(tmp_path, (*ROLES, *ROLES[1:3]), **distributed.settings) as running:
        faults = faults_of(running, kafka, ollama_server)
        order = list(itertools.chain.from_iterable(rng.sample(sorted(faults), len(faults)) for _ in range(count)))
        samples: defaultdict[str, list[list[Sample]]] = defaultdict(list)  # by process: those of each half minute
        with under_load(running, seed, writers=2, rest_s=0.1) as load:
            for name in order[:count]:
                faults[name](rng)
                running.wait()
                taken: defaultdict[str, list[Sample]] = defaultdict(list)
                deadline = time.monotonic() + EVERY_S
                while time.monotonic() < deadline:
                    for each in running.processes.values():
                        if each.name not in SPARES:
                            taken[each.name].append(sample(each))
                    time.sleep(SAMPLE_S)  # between two looks
                for process, seen in taken.items():
                    samples[process].append(seen)
                print(f"{name}: {load.taken} writes taken, {load.reads} reads")
        distributed.nothing_wrong(running, load)

    assert grown(samples) == []


def faults_of(
    running: Cluster, kafka: KafkaServer, ollama: OllamaServer
) -> Mapping[str, Callable[[random.Random], None]]:
    """Return what may happen, by name."""

    def away(begin: Callable[[], None], end: Callable[[], object]) -> Callable[[random.Random], None]:
        def fault(rng: random.Random) -> None:
            begin()
            time.sleep(rng.uniform(0.5, 5.0))  # how long it is away
            end()

        return fault

    store = running.processes["store-1"]
    spares = [running.processes[name] for name in SPARES]
    return {f"{spare.name} killed": away(spare.kill, spare.launch) for spare in spares} | {
        "broker killed": away(kafka.kill, kafka.start),
        "broker paused": away(kafka.pause, kafka.resume),
        "Ollama killed": away(ollama.kill, ollama.start),
        "Ollama paused": away(ollama.pause, ollama.resume),
        "store paused": away(store.pause, store.resume),
    }
