"""`kill -9` at random moments under load with edits, restart each time."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from shared.log.open import open_log
from tests.e2e.caller import API_KEYS
from tests.e2e.faults import Restarts, dead_letters, not_on_the_log, rounds, under_load
from tests.e2e.harness import HASTY, SLUICE, Server
from tests.e2e.load import new_seed
from tests.e2e.oracle import differences

KILLS = rounds(ci=6, here=1)


@pytest.mark.feature(260)
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(SLUICE, id="usual"),
        pytest.param(HASTY, id="hasty"),
    ],
)
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_a_load_when_processes_are_killed_then_nothing_is_lost_stale_or_mixed(
    tmp_path: Path, module: str
) -> None:
    seed = new_seed()
    rng, restarts = random.Random(seed), Restarts()
    server = Server(tmp_path / "data", module=module, API_KEYS=API_KEYS).start()
    try:
        with under_load(server, seed) as load:
            for number in range(KILLS):
                # Every third dies while it recovers from the one before.
                time.sleep(rng.uniform(0.1, 1.5))  # the random moment itself
                server.kill(everything=rng.random() < 0.5)
                server.launch()
                if number % 3 != 1:
                    restarts.watch(server)
            if KILLS % 3 == 2:
                restarts.watch(server)
        load.settle()
        # One more start: its sweep takes what a kill between switch and delete left behind.
        assert server.stop() == 0
        server.start()
        wrong = asyncio.run(differences(server.data / "store", load.expected, described=load.described))
        lost = asyncio.run(not_on_the_log(open_log("sqlite:", server.data), load))
        letters = dead_letters(server)
    finally:
        server.kill()

    print(load)
    print(restarts)
    assert load.faults == []
    assert wrong == []
    assert lost == []
    assert letters == []
