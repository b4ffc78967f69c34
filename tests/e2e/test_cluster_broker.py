"""The broker killed, paused and stopped under a load with edits: nothing that was taken is lost."""

import random
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import cluster
from tests.e2e.faults import Distributed, first_progress_s, rounds, under_load
from tests.e2e.load import new_seed
from tests.servers.kafka import KafkaServer
from tests.servers.ollama import OllamaServer

SESSION_S = 10.0  # a member that is silent for longer is put out


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_a_load_when_the_broker_goes_then_the_log_has_all_that_was_taken(
    tmp_path: Path, kafka: KafkaServer, ollama_server: OllamaServer
) -> None:
    seed, distributed = new_seed(), Distributed(kafka, ollama_server)
    rng = random.Random(seed)

    def killed() -> None:
        kafka.kill()
        time.sleep(rng.uniform(0.0, 5.0))  # how long it is away
        kafka.start()

    def killed_twice() -> None:
        kafka.kill()
        kafka.start()
        time.sleep(rng.uniform(0.0, 1.0))  # the clients are about to come back
        kafka.kill()
        kafka.start()

    def paused() -> None:
        kafka.pause()
        time.sleep(rng.uniform(1.0, 5.0))
        kafka.resume()

    def paused_beyond_the_session() -> None:
        kafka.pause()
        time.sleep(SESSION_S + 2.0)
        kafka.resume()

    def stopped() -> None:
        kafka.stop(within_s=60)
        kafka.start()

    faults = (killed, paused, killed_twice, paused_beyond_the_session, stopped)
    with cluster(tmp_path, **distributed.settings) as running:
        with under_load(running, seed, writers=6) as load:
            for number in range(rounds(ci=3)):
                time.sleep(rng.uniform(0.1, 1.5))  # the random moment itself
                fault = faults[number % len(faults)]
                fault()
                print(f"broker {fault.__name__}: first progress {first_progress_s(running):.1f} s after")

        distributed.nothing_wrong(running, load)
