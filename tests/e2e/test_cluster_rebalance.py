"""Workers that come, go, and sleep beyond their session, under a load with edits: partitions change hands."""

import random
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import ROLES, Process, cluster
from tests.e2e.faults import Distributed, rounds, under_load
from tests.e2e.groups import Groups
from tests.e2e.load import new_seed
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

GROUPS = {"ingest-worker": ("ingest", "chunk."), "embed-worker": ("embed.",)}  # how their names begin
WORKERS = tuple(GROUPS)
PARTITIONS = 8


def members(role: str, count: int) -> dict[str, int]:
    """Return that each group of the role should have so many."""
    return dict.fromkeys(GROUPS[role], count)


def more_handled(workers: list[Process], records: int) -> None:
    """Return when these workers have done so many records more."""
    name = "sluice_records_handled_total"
    before = sum(worker.metric(name) for worker in workers)
    deadline = time.monotonic() + 60
    while (done := sum(worker.metric(name) for worker in workers) - before) < records:
        assert time.monotonic() < deadline, f"{done:g} of {records} records done in 60 s"
        time.sleep(0.1)  # other processes: there is nothing to await


def put_to_sleep(worker: Process, ollama: OllamaServer) -> float:
    """Stop a worker in the middle of something, and return of how many records.

    It wakes with what it has begun, and does it: by then another one has done all of it, and newer versions too.
    """
    if worker.role == "embed-worker":
        ollama.pause()  # it waits for vectors, and will write them
    deadline = time.monotonic() + 60
    while not (busy := worker.metric("sluice_records_in_flight")):
        assert time.monotonic() < deadline, f"{worker.name} has nothing to do"
        time.sleep(0.02)  # another process: there is nothing to await
    worker.pause()
    ollama.resume()
    return busy


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_given_two_workers_of_each_kind_when_they_change_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    rng = random.Random(seed)
    groups = Groups(kafka.address, PARTITIONS)
    with cluster(tmp_path, (*ROLES, *WORKERS), **distributed.settings) as running:
        groups.owned(members(WORKERS[0], 2) | members(WORKERS[1], 2))
        with under_load(running, seed) as load:
            for number in range(rounds(ci=2)):
                # By turns, so that workers of both kinds are killed, and sleep.
                dying, sleeping = WORKERS if (seed + number) % 2 else reversed(WORKERS)
                time.sleep(rng.uniform(0.2, 2.0))  # the random moment itself
                sleeper = rng.choice(running.of(sleeping))
                others = [each for each in running.of(sleeping) if each is not sleeper]
                rng.choice(running.of(dying)).kill()
                busy = put_to_sleep(sleeper, ollama_server)
                running.launch(dying)
                # The broker puts both out when their session of 10 s is over.
                owned = groups.owned(members(dying, 2) | members(sleeping, 1), changed=GROUPS[dying])
                more_handled(others, 10)
                sleeper.resume()
                again = groups.owned(members(dying, 2) | members(sleeping, 2))
                print(f"{dying} replaced, {sleeping} asleep: owned after {owned:.1f} s; awake: after {again:.1f} s")
                print(f"  it slept over {busy:g} records")

        distributed.nothing_wrong(running, load)
