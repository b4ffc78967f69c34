"""`kill -9` of a process, a server, or all of them, under a load with edits; each is started again.

All upkeep runs each second, compaction on Kafka, too; the usual one is in the tests of outages and rebalances.
"""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from shared.log.kafka.topics import configs
from shared.topics import pipeline_topics
from tests.e2e.caller import API_KEYS
from tests.e2e.cluster import PROCESSES, Cluster, cluster
from tests.e2e.faults import Distributed, Restarts, nothing_wrong, rounds, under_load
from tests.e2e.harness import HASTY
from tests.e2e.load import new_seed
from tests.faults.hasty_upkeep import GRACE_MS
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

Victims = dict[str, tuple[Callable[[], None], Callable[[], object]]]  # how to kill and to start each


def test_given_kafka_and_ollama_when_anything_is_killed_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    with cluster(tmp_path, module=HASTY, **distributed.with_names) as running:
        asyncio.run(compacted_at_once(kafka.address))
        victims = processes(running) | {
            "broker": (kafka.kill, kafka.start),
            "Ollama": (ollama_server.kill, ollama_server.start),
        }
        with under_load(running, seed) as load:
            kill_in_turn(victims, rounds(ci=6), random.Random(seed), running)

        distributed.nothing_wrong(running, load)


def test_given_one_machine_without_servers_when_a_process_is_killed_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path,
) -> None:
    seed = new_seed()
    with cluster(tmp_path, module=HASTY, API_KEYS=API_KEYS) as running:
        with under_load(running, seed) as load:
            kill_in_turn(processes(running), rounds(ci=2), random.Random(seed), running)

        nothing_wrong(running, load)


async def compacted_at_once(address: str) -> None:
    """Have the broker compact its topics within seconds, and forget nulls soon."""
    hasty = {"segment.ms": 1000, "min.cleanable.dirty.ratio": 0.01, "max.compaction.lag.ms": 1000}
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        for topic in pipeline_topics("unused", compaction_lag_ms=0):
            if topic.cleanup == "compact":
                wanted = configs(topic) | hasty | {"delete.retention.ms": GRACE_MS}
                resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, wanted)
                [reply] = await admin.alter_configs([resource])
                assert [error for error, *_ in reply.resources] == [0], reply
    finally:
        await admin.close()


def processes(running: Cluster) -> Victims:
    """Return how to kill and start each process, and all of them at once."""

    def launch_all() -> None:
        for process in running.processes.values():
            process.launch()

    each = {name: (running.processes[name].kill, running.processes[name].launch) for name in PROCESSES}
    return {**each, "all processes": (running.kill, launch_all)}


def kill_in_turn(victims: Victims, count: int, rng: random.Random, running: Cluster) -> None:
    """Kill so many times, in a random order that takes each before one comes again; start each again, soon.

    Every third kill is of the same one again, while it comes back.
    """
    restarts, order = Restarts(), list[str]()
    while len(order) < count:
        order += rng.sample(sorted(victims), len(victims))
    turns = iter(order)
    for number in range(count):
        again = number % 3 == 2
        if not again:
            name = next(turns)
        time.sleep(rng.uniform(0.1, 1.5))  # the random moment itself
        kill, start = victims[name]
        kill()
        time.sleep(0.0 if again else rng.uniform(0.0, 0.7))
        start()
        if number % 3 == 0 or again:  # else it dies once more before it is back
            restarts.watch(*(running.processes[each] for each in PROCESSES if name in (each, "all processes")))
            running.wait()
    running.wait()
    print(restarts)
