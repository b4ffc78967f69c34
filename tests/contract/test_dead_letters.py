"""The view of the dead letters, on every log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from faststream.kafka import KafkaBroker

from services.query_api.ops.redrive import ResendVersion, redrive_state
from shared.blobs.file import FileBlobs
from shared.contracts import LogPosition, truth_key
from shared.ids import document_id
from shared.log import Log
from shared.log.dead_letters import DeadLetters, RecordOwner, key_of
from shared.log.failure import Failure
from shared.log.headers import REDRIVE_HEADER
from shared.log.open_letters import LetterFilter, LetterPage, OpenLetters
from shared.log.publish import publish
from shared.log.read import reading
from shared.topics import DAY, DEAD_LETTERS, EXTRACTED, Topic
from tests.builders import a_record
from tests.contract.logs import Harness
from tests.selection import CI_ONLY

DEFAULT = LetterFilter(tenant="default")

Bury = Callable[..., Awaitable[None]]


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics([Topic(name=DEAD_LETTERS, partitions=1, cleanup="compact", retention_ms=None)])
    return log


@pytest.fixture
async def broker(log: Log) -> AsyncIterator[KafkaBroker]:
    broker = log.broker("test")
    await broker.start()
    yield broker
    await broker.stop()


@pytest.fixture
def bury(broker: KafkaBroker, tmp_path: Path) -> Bury:
    """Write a letter, as a stage does."""

    async def write(
        offset: int,
        *,
        stage: str = "ingest",
        code: str = "empty",
        owner: RecordOwner | None = None,
        last_seen: int = 9,
        redrives: int = 0,
        **record: Any,
    ) -> None:
        failure = Failure(stage=stage, code=code, sentence="no text", attempts=1, first_seen=5, last_seen=last_seen)
        headers = [(REDRIVE_HEADER, b"%d" % redrives)] if redrives else []
        letters = DeadLetters(broker, FileBlobs(tmp_path / "blobs"), lambda _: owner)
        await letters(a_record(offset=offset, headers=headers, **record), failure)

    return write


def offsets(found: LetterPage) -> list[int]:
    """Return the offsets of the letters' records."""
    return [each.letter.offset for each in found.letters]


async def settle(broker: KafkaBroker, found: LetterPage) -> None:
    for each in found.letters:
        for key in each.keys:
            await publish(broker, DEAD_LETTERS, None, key=key)


async def test_nothing_is_open_where_nothing_failed(log: Log) -> None:
    found = await OpenLetters(log).newest(DEFAULT, limit=10)

    assert (found.letters, found.total, found.after) == ((), 0, None)


async def test_a_letter_written_again_after_a_crash_is_one(log: Log, bury: Bury) -> None:
    view = OpenLetters(log)
    await bury(1)
    await bury(1, last_seen=10)
    await bury(1, stage="chunk")

    found = await view.newest(DEFAULT, limit=10)

    assert [(each.letter.stage, each.letter.last_seen) for each in found.letters] == [("chunk", 9), ("ingest", 10)]
    assert found.total == 2
    assert len({each.id for each in found.letters}) == 2


async def test_records_made_of_one_submission_twice_fail_once(log: Log, bury: Bury) -> None:
    owner = RecordOwner("default", "d", "s", "p", 7, LogPosition(partition=1, offset=4, time=99))
    for offset in (10, 11):
        await bury(offset, stage="embed", topic="chunks.g", owner=owner)

    found = await OpenLetters(log).newest(DEFAULT, limit=10)

    assert offsets(found) == [11]
    assert found.letters[0].letter.place == owner.place


async def test_a_document_that_fails_again_with_every_run_is_one_letter_in_each_stage_and_generation(
    log: Log, broker: KafkaBroker, bury: Bury
) -> None:
    view, owner = OpenLetters(log), RecordOwner("default", "d", "s", "p")
    for offset in (1, 2, 3):
        await bury(offset, owner=owner, last_seen=offset)
    await bury(4, stage="embed", owner=owner)
    await bury(5, owner=RecordOwner("other", "d", "s", "p"))

    newest = await view.newest(DEFAULT, limit=10)
    oldest = await view.oldest(DEFAULT, limit=10)
    [again] = (
        await view.newest(LetterFilter(tenant="default", ids=frozenset({newest.letters[1].id})), limit=9)
    ).letters

    assert (offsets(newest), newest.total) == ([4, 3], 2)
    assert offsets(oldest) == [1, 2, 3, 4], "each is redriven, in the order in which they came"
    assert len({each.id for each in oldest.letters[:3]}) == 1
    assert again.letter.offset == 3
    await settle(broker, oldest)
    assert (await view.newest(DEFAULT, limit=10)).total == 0


async def test_pages_go_both_ways_without_gap_or_overlap(log: Log, bury: Bury) -> None:
    view = OpenLetters(log)
    for offset in range(7):
        await bury(offset)

    down, up = [], []
    below, above = None, -1
    while True:
        page = await view.newest(DEFAULT, limit=3, below=below)
        down.append(offsets(page))
        assert page.total == 7
        if (below := page.after) is None:
            break
    await bury(7)
    while True:
        page = await view.oldest(DEFAULT, limit=3, above=above, upto=7)
        up.append(offsets(page))
        if page.after is None:
            break
        above = page.after

    assert down == [[6, 5, 4], [3, 2, 1], [0]]
    assert up == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_settled_letter_is_gone_for_everybody_and_a_later_failure_is_not(
    log: Log, broker: KafkaBroker, bury: Bury
) -> None:
    early, late = OpenLetters(log), OpenLetters(log)
    await bury(1)
    await bury(2)
    before = await early.newest(DEFAULT, limit=1)
    # Redriven, it fails before the first letter is settled.
    await bury(2, redrives=1)
    await settle(broker, before)

    for view in (early, late):
        found = await view.newest(DEFAULT, limit=10)
        assert [(each.letter.offset, each.letter.redrives) for each in found.letters] == [(2, 1), (1, 0)]
        assert found.letters[0].id == before.letters[0].id


async def test_every_letter_of_an_entry_is_settled_with_it(log: Log, broker: KafkaBroker, bury: Bury) -> None:
    view = OpenLetters(log)
    await bury(1, redrives=1)
    await bury(1)  # the topic was replayed

    found = await view.newest(DEFAULT, limit=10)
    await settle(broker, found)

    assert [each.letter.redrives for each in found.letters] == [1]
    assert len(found.letters[0].keys) == 2
    assert (await view.newest(DEFAULT, limit=10)).total == 0


async def test_filters_choose(log: Log, bury: Bury) -> None:
    view = OpenLetters(log)
    await bury(1, code="bug", owner=RecordOwner("default", "d1", "handbook", "a"), last_seen=100)
    await bury(2, stage="embed", owner=RecordOwner("default", "d2", "wiki", "b"), last_seen=200)
    await bury(3, owner=RecordOwner("other", "d3", "wiki", "c"), last_seen=300)
    await bury(4, code="undecodable", last_seen=400)

    async def chosen(**filters: Any) -> list[int]:
        return offsets(await view.newest(LetterFilter(**({"tenant": "default"} | filters)), limit=10))

    ids = {each.letter.offset: each.id for each in (await view.newest(DEFAULT, limit=10)).letters}
    assert await chosen() == [4, 2, 1]  # of no tenant: the default one's
    assert await chosen(tenant="other") == [3]
    assert await chosen(code="bug") == [1]
    assert await chosen(stage="embed") == [2]
    assert await chosen(source="wiki") == [2]
    assert await chosen(document_id="d1") == [1]
    assert await chosen(since=200) == [4, 2]
    assert await chosen(since=100, until=200) == [1]
    assert await chosen(ids=frozenset({ids[2], ids[4], "unknown"})) == [4, 2]
    assert await chosen(ids=frozenset({ids[2]}), tenant="other") == []
    assert await chosen(ids=frozenset()) == []


async def test_what_is_no_letter_is_passed(log: Log, broker: KafkaBroker, bury: Bury) -> None:
    await publish(broker, DEAD_LETTERS, b"{no letter", key=b"k")
    await publish(broker, DEAD_LETTERS, None, key=b"never written")
    await bury(1)

    assert offsets(await OpenLetters(log).newest(DEFAULT, limit=10)) == [1]


async def test_a_damaged_letter_hides_no_other_and_says_what_it_is(log: Log, broker: KafkaBroker, bury: Bury) -> None:
    await bury(1)
    await bury(2)
    whole = (await OpenLetters(log).newest(DEFAULT, limit=1)).letters[0]
    async with reading(log, TopicPartition(DEAD_LETTERS, 0)) as reader:
        value = (await reader.at([whole.offset]))[whole.offset].value
    await publish(broker, DEAD_LETTERS, value.replace(b'"sentence"', b'"sentense"'), key=whole.keys[0])

    found = await OpenLetters(log).newest(DEFAULT, limit=9)

    damaged, other = [each.letter for each in found.letters]
    assert (found.total, other.sentence, damaged.place) == (2, "no text", whole.letter.place)
    assert damaged.sentence.startswith("the letter itself is damaged: ")
    await settle(broker, found)
    assert (await OpenLetters(log).newest(DEFAULT, limit=9)).total == 0


@CI_ONLY
async def test_compaction_takes_settled_letters_and_no_other(
    harness: Harness, log: Log, broker: KafkaBroker, bury: Bury
) -> None:
    view = OpenLetters(log)
    for offset in range(3):
        await bury(offset)
        await bury(offset)
    await settle(broker, await view.oldest(DEFAULT, limit=1))
    await bury(9)
    await harness.compact(DEAD_LETTERS)

    for each in (view, OpenLetters(log)):
        assert offsets(await each.newest(DEFAULT, limit=10)) == [9, 2, 1]
    async with reading(log, TopicPartition(DEAD_LETTERS, 0)) as reader:
        values = [record.value async for record in reader.between(0, (await reader.bounds())[1])]
    assert sum(value is not None and value.startswith(b"{") for value in values) == 3


@CI_ONLY
async def test_a_letter_whose_null_was_compacted_away_unseen_is_forgotten(
    harness: Harness, log: Log, broker: KafkaBroker, bury: Bury
) -> None:
    view = OpenLetters(log)
    await bury(1)
    await bury(2)
    [_, first] = (await view.newest(DEFAULT, limit=10)).letters
    # The same record key again under another entry: compaction takes the old letter, and this view never saw a null.
    await publish(broker, DEAD_LETTERS, b"{}", key=key_of(first.letter))
    await harness.compact(DEAD_LETTERS)

    assert offsets(await view.newest(DEFAULT, limit=10)) == [2]
    assert (await view.newest(DEFAULT, limit=10)).total == 1


async def test_the_truth_is_found_by_version_unless_it_is_gone(log: Log, broker: KafkaBroker) -> None:
    await log.ensure_topics([Topic(name=EXTRACTED, partitions=4, cleanup="compact", retention_ms=None)])
    names = [document_id("default", "s", str(number)) for number in range(12)]
    for name in names:
        for version in (1, 2):
            value = b"%d of " % version + name.encode()
            for _ in range(2):  # published again after a crash
                written = await publish(broker, EXTRACTED, value, key=truth_key(name, version), route=name.encode())
    await publish(broker, EXTRACTED, None, key=truth_key(names[0], 2), route=names[0].encode())

    wanted = {ResendVersion(name, version, since=0) for name in names[:6] for version in (2, 3)}
    wanted.add(ResendVersion(names[11], 2, since=written.timestamp))
    found = await redrive_state(log, wanted)

    assert {each: record.value for each, record in found.items()} == {
        each: b"2 of " + each.document_id.encode()
        for each in wanted
        if each.version == 2 and each.document_id != names[0]
    }
    assert await redrive_state(log, set()) == {}
    ahead = ResendVersion(names[0], 1, since=written.timestamp + 10 * DAY)  # taken in while the clock was days ahead
    assert [*await redrive_state(log, {ahead})] == [ahead]
