"""Hostile records on documents.submitted, on both logs: each becomes a dead letter, and none stops a stage."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from shared.contracts import LogPosition
from shared.ids import document_id
from shared.inputs.metadata import MOST_BYTES, MOST_DEPTH
from shared.log import Log
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.integration import wire_bombs
from tests.integration.first_stages import FirstStages, first_stages
from tests.integration.hostile_run import internals
from tests.selection import CI_ONLY

TOGETHER = 7  # hostile records between two good ones
DEEP: Final = json.loads('{"a":' * (MOST_DEPTH + 1) + "{}" + "}" * (MOST_DEPTH + 1))


@pytest.fixture
async def stages(unstarted_log: Log, tmp_path: Path, users: AsyncExitStack) -> FirstStages:
    return await first_stages(unstarted_log, tmp_path, users)


@CI_ONLY
@pytest.mark.timeout(300)
async def test_hostile_records_are_set_aside_and_stop_nobody(stages: FirstStages, users: AsyncExitStack) -> None:
    seed, count = new_seed(), rounds(ci=28)
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


@CI_ONLY
@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"a": 2**80}, "metadata.a is an integer beyond 64 bits; send it as a string"),
        ({"a": [{"b": -(2**64)}]}, "metadata.a[0].b is an integer beyond 64 bits; send it as a string"),
        (DEEP, f"metadata is nested deeper than {MOST_DEPTH} levels"),
        ({"a": "m" * 400_000}, f"metadata is larger than {MOST_BYTES} bytes"),
    ],
    ids=["integer", "within", "depth", "size"],
)
async def test_metadata_that_no_store_takes_are_refused_by_field(
    stages: FirstStages, users: AsyncExitStack, metadata: dict[str, Any], sentence: str
) -> None:
    broker = stages.log.broker("hostile")
    await broker.start()
    users.push_async_callback(broker.stop)
    body = {"source": "s", "path": "a", "text": "A lantern.", "metadata": metadata}

    await broker.publish(json.dumps(body).encode(), SUBMITTED, key=None, headers={})
    await until(stages.idle)

    [letter] = await stages.dead_letters()
    assert (letter.sentence, letter.code, letter.traceback_digest) == (sentence, "invalid", None)


@CI_ONLY
@pytest.mark.parametrize(
    "fields",
    [
        {"source": "s" * 400_000},
        {"path": "p" * 400_000},
        {"title": "t" * 400_000},
        {"tags": ["t"] * 20_000},
        {"tags": ["t" * 400_000]},
        {"description": "d" * 400_000},
        {"filename": "f" * 400_000},
        {"hash": "h" * 400_000},
        {"mediaType": "text/plain; a=" + "m" * 400_000},
    ],
    ids=["source", "path", "title", "tags", "tag", "description", "filename", "hash", "type"],
)
async def test_a_record_has_the_limits_of_http(
    stages: FirstStages, users: AsyncExitStack, fields: dict[str, Any]
) -> None:
    broker = stages.log.broker("hostile")
    await broker.start()
    users.push_async_callback(broker.stop)
    body = {"source": "s", "path": "a", "text": "A lantern.", **fields}

    await broker.publish(json.dumps(body).encode(), SUBMITTED, key=None, headers={})
    await until(stages.idle)

    [letter] = await stages.dead_letters()
    assert letter.code == "too_long"
    assert len(letter.sentence) < 200
    assert len((letter.source or "") + (letter.path or "")) < 200
