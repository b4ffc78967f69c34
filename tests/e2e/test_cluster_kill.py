"""`kill -9` of a random process or server at a random moment, under a load with edits; each is started again."""

import random
from pathlib import Path

import pytest

from tests.e2e.cluster import cluster
from tests.e2e.faults import Distributed, kill_one_by_one, nothing_wrong, processes, rounds, under_load
from tests.e2e.load import new_seed
from tests.servers.cache import CI_ONLY
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@CI_ONLY
def test_given_kafka_and_ollama_when_anything_is_killed_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    with cluster(tmp_path, **distributed.settings) as running:
        victims = processes(running, "ingest-worker-1", "embed-worker-1", "query-api-1", "store-1") | {
            "broker": (kafka.kill, kafka.start),
            "Ollama": (ollama_server.kill, ollama_server.start),
        }
        with under_load(running, seed) as load:
            kill_one_by_one(victims, rounds(ci=8, here=2), random.Random(seed), running)

        distributed.nothing_wrong(running, load)


@CI_ONLY
def test_given_one_machine_without_servers_when_a_process_is_killed_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path,
) -> None:
    seed = new_seed()
    with cluster(tmp_path) as running:
        victims = processes(running, "ingest-worker-1", "embed-worker-1", "query-api-1", "store-1")
        with under_load(running, seed) as load:
            kill_one_by_one(victims, rounds(ci=3, here=1), random.Random(seed), running)

        nothing_wrong(running, load)
