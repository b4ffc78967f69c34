"""`kill -9` at random moments under load with edits, restart each time."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.e2e.faults import rounds
from tests.e2e.harness import Server
from tests.e2e.load import Load, new_seed
from tests.e2e.oracle import differences

ROUNDS = rounds(ci=40, here=2)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_a_load_when_processes_are_killed_then_nothing_is_lost_stale_or_mixed(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    server = Server(tmp_path / "data").start()
    load = Load(server, documents=12, seed=seed)
    try:
        load.start(readers=2)
        for round_ in range(ROUNDS):
            time.sleep(rng.uniform(0.2, 2.5))  # the random moment itself
            server.kill(everything=round_ % 2 == 0)
            server.start()
        load.stop()
        load.settle()
        # One more start: its sweep takes what a kill between switch and delete left behind.
        assert server.stop() == 0
        server.start()
        wrong = asyncio.run(differences(server.data / "store", load.expected))
    finally:
        load.stop()
        server.stop()

    print(f"{load.writes} confirmed writes, {load.reads} reads")
    assert load.faults == []
    assert wrong == []
    assert load.reads > 0
    assert load.writes > 0
