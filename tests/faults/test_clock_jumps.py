"""A wall clock that jumps by hours and days, both ways: order holds, and nobody who waits hangs."""

import asyncio
import itertools
import random
import time
from pathlib import Path

import pytest

from shared.contracts import DocumentExtracted, decode
from shared.log import Record
from shared.log.sqlite import SqliteLog
from shared.topics import EXTRACTED, SUBMITTED
from tests.e2e.faults import rounds
from tests.e2e.load import Load, new_seed
from tests.e2e.oracle import differences
from tests.faults.clock import MistimedServer
from tests.integration.pipeline import records_of

HOUR_S, DAY_S = 3600.0, 86_400.0
# From the true time; the longest is beyond every retention.
WRONG_BY_S = ((HOUR_S, 20 * HOUR_S), (-20 * HOUR_S, -HOUR_S), (DAY_S, 40 * DAY_S), (-40 * DAY_S, -DAY_S))
WRITES = 4  # confirmed before the next jump: one more than there are writers, so that one began after it
PROGRESS_GUARD_S = 120.0  # a hang guard: the door may refuse until the readers' backlog is looked at again


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_a_load_when_the_clock_jumps_then_nothing_is_lost_or_late_and_nobody_hangs(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    count = rounds(ci=4)
    kinds = itertools.chain.from_iterable(rng.sample(WRONG_BY_S, len(WRONG_BY_S)) for _ in itertools.count())
    start = time.time()
    server = MistimedServer(tmp_path).start()
    load = Load(server, documents=12, seed=seed)
    slowest = furthest = 0.0
    try:
        load.start(readers=2)
        for number, bounds in enumerate(itertools.islice(kinds, count)):
            wrong_by = rng.uniform(*bounds)
            server.clock.jump(wrong_by)
            furthest = max(furthest, wrong_by)
            began, before = time.monotonic(), load.writes
            if number % 8 == 7:
                server.kill()
                server.start()
            while load.writes < before + WRITES:
                assert time.monotonic() < began + PROGRESS_GUARD_S, (
                    f"{load.writes - before} writes since the clock is wrong by {wrong_by:.0f} s: {server.tail()}"
                )
                time.sleep(0.05)  # threads: there is nothing to await
            slowest = max(slowest, time.monotonic() - began)
        load.stop()
        load.settle()
        # One more start: its sweep takes what a kill between switch and delete left behind.
        assert server.stop() == 0
        server.start()
        wrong = asyncio.run(differences(server.data / "store", load.expected))
        with server.client() as client:
            letters = client.get("/ops/dead-letters").json()["items"]
    finally:
        load.stop()
        server.stop()
    submitted, extracted = asyncio.run(_log(server.data / "log.sqlite"))

    print(
        f"{count} jumps, {load.writes} confirmed writes, {load.reads} reads; {WRITES} more took {slowest:.1f} s at most"
    )
    assert load.faults == []
    assert wrong == []
    assert letters == []
    for records in (submitted, extracted):
        for one, next_ in itertools.pairwise(records):
            assert one.partition != next_.partition or one.timestamp <= next_.timestamp
    assert max(record.timestamp for record in submitted) > (start + furthest) * 1000
    newest: dict[str, int] = {}
    for record in extracted:
        if record.value is not None:
            document = decode(record.value, DocumentExtracted).document
            assert document.version >= newest.get(document.document_id, 0), document
            newest[document.document_id] = document.version


async def _log(path: Path) -> tuple[list[Record], list[Record]]:
    """Return what was submitted, and the truth, a partition after the other."""
    log = SqliteLog(path)
    await log.start()
    try:
        return await records_of(log, SUBMITTED), await records_of(log, EXTRACTED)
    finally:
        await log.stop()
