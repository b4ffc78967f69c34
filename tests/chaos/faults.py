"""The faults that `make chaos` makes, each a test that takes count and seed from the environment."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A test that does harm."""

    what: str
    tests: str  # as pytest takes it
    slice: int  # how many fit into ten minutes on two cores


FAULTS = {
    "kill": Fault(
        "kill -9 of all processes of a standalone server, or its main one; as often with all upkeep each second",
        "tests/e2e/test_kill.py",
        50,
    ),
    "cluster-kill": Fault(
        "kill -9 of worker, API, store, broker, model server or everything, separate processes, all upkeep each second",
        "tests/e2e/test_cluster_kill.py",
        20,
    ),
    "broker": Fault("the broker killed, paused and stopped under load", "tests/e2e/test_cluster_broker.py", 20),
    "zombie": Fault(
        "workers killed, added, and stopped beyond their session, to wake in the middle of something",
        "tests/e2e/test_cluster_rebalance.py",
        10,
    ),
    "reindex": Fault(
        "kill -9 of each process while a generation is built, and as often while it takes over, at both sizes",
        "tests/e2e/test_reindex_kill.py",
        10,
    ),
    "mirror": Fault("kill -9 while mirrors follow /rag/changes", "tests/e2e/test_mirror.py", 50),
    "soak": Fault("ten minutes of load, a fault every half minute, and nothing may grow", "tests/e2e/test_soak.py", 1),
    "outage": Fault("broker, model server and store away for a minute", "tests/e2e/test_cluster_outage.py", 1),
    "network": Fault(
        "model server, blobs, broker, store behind a network that refuses, hangs, cuts and garbles",
        "tests/faults/test_dependencies.py",
        1,
    ),
    "crash-point": Fault("death before and after every call that writes", "tests/faults/test_crash_points.py", 1),
    "poison": Fault("records of forty-odd bad kinds between good ones", "tests/faults/test_poison.py", 10),
    "deadly-text": Fault(
        "two texts of many kill their worker; it and its readers are killed with kill -9, too, at both sizes",
        "tests/e2e/test_deadly_texts.py",
        50,
    ),
    "mutation": Fault("records with 1 to 8 bits flipped", "tests/faults/test_mutated_records.py", 2000),
    "simulation": Fault(
        "the real stages on simulated ports: crashes, zombies, power loss, erasures, replays; per 1,000 seeds",
        "tests/simulation/test_simulation.py",
        1,
    ),
    "replay": Fault("the whole log again, and every event up to five times", "tests/faults/test_replay.py", 100),
    "disk-full": Fault("a disk that fills up under load, and has room again", "tests/faults/test_disk_full.py", 10),
    "clock": Fault("a wall clock that jumps by hours and days, both ways", "tests/faults/test_clock_jumps.py", 20),
    "skew": Fault("two releases on one folder, one with a field more", "tests/faults/test_schema_skew.py", 5),
    "blobs": Fault("blobs gone or altered between two stages, six each time", "tests/faults/test_blobs.py", 5),
    "lost-store": Fault(
        "the store's folder, on Kafka collections of Qdrant's API, deleted under 1,000 documents, readers and writers",
        "tests/faults/test_lost_store.py",
        1,
    ),
    "growth": Fault(
        "20 rounds of edits to 2,000 documents, deletes and a replay, beside a fresh load of the same end",
        "tests/faults/test_growth.py",
        20,
    ),
    "damage": Fault(
        "a store emptied and altered behind a loaded server, repaired meanwhile", "tests/faults/test_damage.py", 10
    ),
    "log-machine": Fault("histories of the SQLite log beside a list", "tests/property/test_log_machine.py", 300),
    "ledger-machine": Fault(
        "histories of the ledger beside a dictionary, on each store", "tests/property/test_ledger_machine.py", 200
    ),
}
