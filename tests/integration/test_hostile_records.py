"""Hostile records on documents.submitted, on both logs: each becomes a dead letter, and none stops a stage."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.contracts import LogPosition
from shared.ids import document_id
from shared.log import Log
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.integration import wire_bombs
from tests.integration.first_stages import FirstStages, first_stages
from tests.integration.hostile_run import internals

TOGETHER = 7  # hostile records between two good ones


@pytest.fixture
async def stages(unstarted_log: Log, tmp_path: Path, users: AsyncExitStack) -> FirstStages:
    return await first_stages(unstarted_log, tmp_path, users)


@pytest.mark.timeout(300)
async def test_hostile_records_are_set_aside_and_stop_nobody(stages: FirstStages, users: AsyncExitStack) -> None:
    seed, count = new_seed(), rounds(ci=28, here=28)
    broker = stages.log.broker("hostile")
    await broker.start()
    users.push_async_callback(broker.stop)
    good: dict[str, LogPosition] = {}
    for number, bomb in enumerate(wire_bombs.records(seed, count)):
        if bomb.value is None or len(bomb.value) < 1_000_000:  # what the log takes
            await broker.publish(bomb.value, SUBMITTED, key=bomb.key, headers=dict(bomb.headers))
        if number % TOGETHER == TOGETHER - 1:
            body = b'{"source": "good", "path": "%d", "text": "A lantern."}' % number
            written = await broker.publish(body, SUBMITTED, key=None, headers={})
            name = document_id("default", "good", str(number))
            good[name] = LogPosition(partition=written.partition, offset=written.offset, time=written.timestamp)

    for name, place in good.items():
        entry = await stages.accepted(name, place)
        assert entry.accepted.outcome == "created"
    await until(stages.idle)
    letters = await stages.dead_letters()

    print(f"{count} hostile records, seed {seed}: {len(letters)} dead letters")
    assert letters
    assert [f"{each.stage}: {each.sentence}" for each in letters if each.traceback_digest is not None] == []
    assert [each.sentence for each in letters if not each.code or not each.sentence or internals(each.sentence)] == []
