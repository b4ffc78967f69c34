"""What every worker relies on when it reads a log."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition
from faststream.kafka import KafkaBroker

from shared.errors import Rejected, RetryLater, Unavailable
from shared.log import Log, Record
from shared.log.consume import BREAKER, BUG_ATTEMPTS, ConsumeOptions, Consumption, consume
from shared.log.failure import Backoff, Failure
from shared.log.headers import tenants_of
from shared.log.partition_lane import HELD
from shared.log.publish import publish
from shared.log.read import Reader
from shared.topics import Topic
from tests.contract.logs import HANG_S, KAFKA_ONLY, Harness, until
from tests.selection import CI_ONLY

TOPIC, GROUP = "events", "g"
AT_ONCE = Backoff(0.001, 0.005)
QUICK = ConsumeOptions(backoff=AT_ONCE, bug_backoff=AT_ONCE, commit_every_s=0.0, measure_every_s=0.05)

Handle = Callable[[Record], Awaitable[None]]


@pytest.fixture
async def log(harness: Harness) -> Log:
    log = await harness.join()
    await log.ensure_topics([Topic(name=TOPIC, partitions=4)])
    return log


@pytest.fixture
async def door(log: Log, users: AsyncExitStack) -> KafkaBroker:
    """Somebody who publishes."""
    broker = log.broker("door")
    await broker.start()
    users.push_async_callback(broker.stop)
    return broker


class Dead:
    """Takes dead letters; fails as often as told first."""

    def __init__(self) -> None:
        self.letters: list[tuple[Record, Failure]] = []
        self.outage = False

    async def __call__(self, record: Record, failure: Failure) -> None:
        if self.outage:
            raise Unavailable("the dead letters are away")
        self.letters.append((record, failure))


class Worker:
    """A consumption with its own broker, as a process has it."""

    def __init__(self, log: Log, handle: Handle, dead: Dead, **options: Any) -> None:
        self.broker = log.broker("worker")
        self.consumption: Consumption = consume(
            self.broker,
            TOPIC,
            GROUP,
            handle,
            on_dead=dead,
            stage="test",
            handle_alone=options.pop("handle_alone", None),
            options=msgspec.structs.replace(QUICK, **options),
        )

    async def stop(self) -> None:
        await self.consumption.stop()
        await self.broker.stop()


@pytest.fixture
def dead() -> Dead:
    return Dead()


@pytest.fixture
def work(log: Log, dead: Dead, users: AsyncExitStack) -> Callable[..., Awaitable[Worker]]:
    async def start(handle: Handle, *, log: Log = log, **options: Any) -> Worker:
        worker = Worker(log, handle, dead, **options)
        users.push_async_callback(worker.stop)
        await worker.broker.start()
        return worker

    return start


def key(partition: int) -> bytes:
    """Return a key that murmur2 sends to this one of four partitions."""
    return {0: b"k3", 1: b"k0", 2: b"k8", 3: b"k14"}[partition]


async def committed(log: Log) -> dict[int, int | None]:
    return {tp.partition: offset for tp, offset in (await log.committed(GROUP, TOPIC)).items()}


async def all_committed(log: Log) -> bool:
    return await log.committed(GROUP, TOPIC) == await log.end_offsets(TOPIC)


async def test_every_record_is_handled_once_and_committed(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    seen: list[bytes] = []

    async def handle(record: Record) -> None:
        seen.append(record.value)

    await asyncio.gather(*(publish(door, TOPIC, b"%d" % n, key=b"k%d" % n) for n in range(300)))
    worker = await work(handle)
    await until(lambda: all_committed(log))

    assert sorted(seen) == sorted(b"%d" % n for n in range(300))
    assert worker.consumption.handled == 300
    assert worker.consumption.in_flight == 0
    await until(lambda: set(worker.consumption.lag.values()) == {0})


async def test_keys_keep_their_order_under_retries_and_others_run_on(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    order: defaultdict[bytes, list[bytes]] = defaultdict(list)
    tries: defaultdict[tuple[bytes, bytes], int] = defaultdict(int)

    async def handle(record: Record) -> None:
        tries[record.key, record.value] += 1
        await asyncio.sleep(0)
        if tries[record.key, record.value] < 1 + int(record.value) % 3:
            raise Unavailable("not yet")
        order[record.key].append(record.value)

    keys = [b"k%d" % number for number in range(12)]
    for number in range(8):
        await asyncio.gather(*(publish(door, TOPIC, b"%d" % number, key=key_) for key_ in keys))
    worker = await work(handle)
    await until(lambda: all_committed(log))

    assert order == {key_: [b"%d" % number for number in range(8)] for key_ in keys}
    assert worker.consumption.retries > 0


async def test_a_waiting_record_holds_up_its_own_partition_only(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    away = True
    seen: list[tuple[int, bytes]] = []

    async def handle(record: Record) -> None:
        if away and record.partition == 0:
            raise Unavailable("the store is away")
        seen.append((record.partition, record.value))

    for partition in range(4):
        for number in range(5):
            await publish(door, TOPIC, b"%d" % number, key=key(partition))
    worker = await work(handle)
    await until(lambda: len(seen) == 15)
    await publish(door, TOPIC, b"late", key=key(3))
    await until(lambda: (3, b"late") in seen)

    assert worker.consumption.waiting == {TopicPartition(TOPIC, 0): "the store is away"}
    await until(lambda: _is(committed(log), {0: 0, 1: 5, 2: 5, 3: 6}))

    away = False
    await until(lambda: all_committed(log))
    assert [value for partition, value in seen if partition == 0] == [b"0", b"1", b"2", b"3", b"4"]
    assert worker.consumption.waiting == {}


async def test_a_record_in_bounded_tries_holds_up_its_own_key_only(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    refused = True
    seen: list[bytes] = []

    async def handle(record: Record) -> None:
        if refused and record.value == b"refused":
            raise RetryLater("the model refuses a text", "model_refuses", after_s=0.01)
        seen.append(record.value)

    await publish(door, TOPIC, b"refused", key=b"doubtful", route=key(0))
    await publish(door, TOPIC, b"behind", key=b"doubtful", route=key(0))
    others = [b"%d" % number for number in range(60)]
    for value in others:
        await publish(door, TOPIC, value, key=b"other " + value, route=key(0))
    # One place, and few in flight: the record that rests must leave both to others, again and again.
    worker = await work(handle, key_concurrency=1, max_in_flight=8, max_records=4)
    await until(lambda: len(seen) == len(others))
    await until(lambda: worker.consumption.retrying != {})

    assert sorted(seen) == sorted(others)
    assert worker.consumption.waiting == {}
    assert worker.consumption.retrying == {TopicPartition(TOPIC, 0): ["the model refuses a text"]}
    assert (await committed(log))[0] == 0

    refused = False
    await until(lambda: all_committed(log))
    assert seen[len(others) :] == [b"refused", b"behind"]
    assert dead.letters == []
    assert worker.consumption.retrying == {}


async def test_bounded_tries_end_in_a_dead_letter_with_the_last_sentence(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    tries = 0

    async def handle(record: Record) -> None:
        nonlocal tries
        tries += 1
        if tries == 2:
            raise Unavailable("the store is away")  # no try of the record's
        raise RetryLater(f"too slow, for time {tries}", "timeout", after_s=0.001, tries=3)

    await publish(door, TOPIC, b"slow", key=b"k")
    worker = await work(handle)
    await until(lambda: all_committed(log))

    ((record, failure),) = dead.letters
    assert (record.value, failure.code, failure.sentence) == (b"slow", "timeout", "too slow, for time 4")
    assert failure.attempts == 4
    assert (worker.consumption.retrying, worker.consumption.waiting) == ({}, {})


async def test_a_record_between_its_tries_is_handed_back_at_once(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    async def handle(record: Record) -> None:
        raise RetryLater("too slow", "timeout", after_s=3600.0, tries=2)

    await publish(door, TOPIC, b"", key=key(2))
    worker = await work(handle)
    await until(lambda: worker.consumption.retrying != {})

    async with asyncio.timeout(HANG_S):
        await worker.stop()

    assert (await committed(log))[2] == 0
    assert (worker.consumption.in_flight, dead.letters) == (0, [])


async def _is(answer: Awaitable[Any], expected: Any) -> bool:
    return bool(await answer == expected)


@CI_ONLY
@pytest.mark.slow
async def test_an_outage_longer_than_a_session_costs_no_membership_no_letter_and_no_commit(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    away = True
    attempts = 0
    dealt: list[set[TopicPartition]] = []

    async def handle(record: Record) -> None:
        nonlocal attempts
        if away:
            attempts += 1
            raise Unavailable("the store is away")

    for partition in range(4):
        for _ in range(20):
            await publish(door, TOPIC, b"", key=key(partition))
    worker = await work(handle, backoff=Backoff())  # as in production
    assigned = worker.consumption.on_partitions_assigned

    async def told(tps: Iterable[TopicPartition]) -> None:
        dealt.append(set(tps))
        await assigned(tps)

    worker.consumption.on_partitions_assigned = told  # type: ignore[method-assign]  # only listened to
    await asyncio.sleep(12)  # a session is 10 s

    assert len(worker.consumption.waiting) == 4
    assert set((await committed(log)).values()) == {0}
    assert dead.letters == []
    assert dealt == []
    assert attempts < 4 * 60  # they rest between their attempts

    away = False
    await until(lambda: all_committed(log))
    assert worker.consumption.handled == 80
    assert dead.letters == []


async def test_the_commit_stays_below_the_lowest_unfinished_record(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go = asyncio.Event()
    seen: list[int] = []

    async def handle(record: Record) -> None:
        if record.key == b"slow":
            await go.wait()
        seen.append(record.offset)

    for name in (b"fast", b"slow", b"fast", b"other"):
        await publish(door, TOPIC, b"", key=name, route=key(0))
    await work(handle)
    await until(lambda: _is(committed(log), {0: 1, 1: 0, 2: 0, 3: 0}))
    await until(lambda: sorted(seen) == [0, 2, 3])
    assert (await committed(log))[0] == 1

    go.set()
    await until(lambda: _is(committed(log), {0: 4, 1: 0, 2: 0, 3: 0}))


async def test_bad_headers_and_bodies_reach_the_handler_as_they_are(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    seen: list[Record] = []

    async def handle(record: Record) -> None:
        if record.value == b"\xff":
            raise Rejected("no JSON", "undecodable")
        seen.append(record)

    producer = door.config.broker_config.producer._producer.producer  # type: ignore[attr-defined]
    odd = [("h", b"\xff"), ("n", None), ("reply_to", b"elsewhere")]
    for value in (b"1", b"\xff", b"2", None):
        await (await producer.send(TOPIC, value, key=b"k", headers=odd))
    await work(handle)
    await until(lambda: all_committed(log))

    assert [record.value for record in seen] == [b"1", b"2", None]
    assert all(list(record.headers) == odd for record in seen)
    assert [(record.value, failure.code, failure.sentence) for record, failure in dead.letters] == [
        (b"\xff", "undecodable", "no JSON")
    ]


async def test_a_rejected_record_is_set_aside_at_once_and_its_neighbours_run_on(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    tries = 0

    async def handle(record: Record) -> None:
        nonlocal tries
        if record.value == b"bad":
            tries += 1
            raise Rejected("a page without text", "empty")

    for value in (b"a", b"bad", b"b"):
        await publish(door, TOPIC, value, key=b"k")
    worker = await work(handle)
    await until(lambda: all_committed(log))

    ((record, failure),) = dead.letters
    assert (record.value, failure.stage, failure.code, failure.attempts) == (b"bad", "test", "empty", 1)
    assert failure.traceback_digest is None
    assert tries == 1
    assert (worker.consumption.handled, worker.consumption.dead) == (2, 1)


async def test_a_bug_is_tried_three_times_then_set_aside_with_its_digest(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    tries: list[bytes] = []

    async def handle(record: Record) -> None:
        tries.append(record.value)
        if record.value != b"fine":
            raise KeyError(f"/srv/sluice/reader.py: object at {id(record):#x}")

    for value in (b"x", b"fine", b"y"):
        await publish(door, TOPIC, value, key=b"k")
    await work(handle)
    await until(lambda: all_committed(log))

    assert tries == [b"x"] * BUG_ATTEMPTS + [b"fine"] + [b"y"] * BUG_ATTEMPTS
    digests = {failure.traceback_digest for _, failure in dead.letters}
    assert len(digests) == 1
    assert len(digests.pop() or "") == 64
    assert {failure.attempts for _, failure in dead.letters} == {BUG_ATTEMPTS}
    assert {failure.code for _, failure in dead.letters} == {"bug"}
    assert not any("/srv" in failure.sentence or "KeyError" in failure.sentence for _, failure in dead.letters)


async def test_nothing_is_passed_while_the_dead_letters_are_away(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    async def handle(record: Record) -> None:
        raise Rejected("no")

    dead.outage = True
    await publish(door, TOPIC, b"", key=key(1))
    worker = await work(handle)
    await until(lambda: worker.consumption.retries > 2)

    assert "the dead letters are away" in worker.consumption.waiting[TopicPartition(TOPIC, 1)]
    assert (await committed(log))[1] == 0

    dead.outage = False
    await until(lambda: all_committed(log))
    assert len(dead.letters) == 1


# Made anew each time: one exception raised again and again drags all its tracebacks along.
SUSPICIOUS = pytest.mark.parametrize(
    "cause",
    [lambda: Rejected("no JSON", "undecodable"), lambda: ValueError("a bug")],
    ids=["undecodable", "bug"],
)


@SUSPICIOUS
async def test_the_breaker_stops_a_release_that_can_read_nothing(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]], cause: Callable[[], Exception]
) -> None:
    async def handle(record: Record) -> None:
        raise cause()

    await asyncio.gather(*(publish(door, TOPIC, b"%d" % n, key=b"k%d" % n) for n in range(200)))
    worker = await work(handle)
    await until(lambda: worker.consumption.broken is not None)
    passed = len(dead.letters)
    await asyncio.gather(*(publish(door, TOPIC, b"", key=b"k%d" % n) for n in range(100)))
    await until(lambda: worker.consumption.lag != {})

    assert "51 records in a row" in str(worker.consumption.broken)
    assert passed <= BREAKER
    assert len(dead.letters) == passed
    assert sum(offset or 0 for offset in (await committed(log)).values()) <= passed


@SUSPICIOUS
async def test_a_mended_release_goes_on_where_the_breaker_stopped_and_nothing_is_lost(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]], cause: Callable[[], Exception]
) -> None:
    seen: set[bytes] = set()

    async def bad(record: Record) -> None:
        raise cause()

    async def mended(record: Record) -> None:
        seen.add(record.value)

    values = {b"%d" % n for n in range(120)}
    await asyncio.gather(*(publish(door, TOPIC, value, key=value) for value in values))
    worker = await work(bad)
    await until(lambda: worker.consumption.broken is not None)
    await worker.stop()
    set_aside = {record.value for record, _ in dead.letters}

    await work(mended)
    await until(lambda: all_committed(log))

    assert len(set_aside) <= BREAKER
    assert set_aside | seen == values


async def test_bugs_among_records_that_are_done_or_refused_are_no_bad_release(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    async def handle(record: Record) -> None:
        match record.value:
            case b"bug":
                raise ValueError("a bug")
            case b"refused":
                raise Rejected("a corrupt PDF", "corrupt")

    # One key: one after the other, so that never more than a few bugs come in a row.
    values = [b"bug"] * (BREAKER // 2) + [b"refused"] + [b"bug"] * (BREAKER // 2) + [b"fine"] + [b"bug"] * BREAKER
    for value in values:
        await publish(door, TOPIC, value, key=b"k")
    worker = await work(handle)
    await until(lambda: all_committed(log))

    assert worker.consumption.broken is None
    assert len(dead.letters) == len(values) - 1


async def test_fifty_corrupt_files_are_no_bad_release(
    log: Log, door: KafkaBroker, dead: Dead, work: Callable[..., Awaitable[Worker]]
) -> None:
    async def handle(record: Record) -> None:
        raise Rejected("a corrupt PDF", "corrupt")

    await asyncio.gather(*(publish(door, TOPIC, b"", key=b"k%d" % n) for n in range(80)))
    worker = await work(handle)
    await until(lambda: all_committed(log))

    assert worker.consumption.broken is None
    assert len(dead.letters) == 80


async def test_the_flush_comes_between_effect_and_commit_once_a_round(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    done = flushed = rounds = 0
    away = True

    async def handle(record: Record) -> None:
        nonlocal done
        done += 1

    async def flush() -> None:
        nonlocal flushed, rounds
        if away:
            raise Unavailable("the store can't flush")
        seen = done
        await asyncio.sleep(0.01)
        rounds, flushed = rounds + 1, seen

    await asyncio.gather(*(publish(door, TOPIC, b"", key=b"k%d" % n) for n in range(100)))
    await work(handle, before_commit=flush)
    await until(lambda: done == 100)
    assert set((await committed(log)).values()) == {0}

    away = False
    await until(lambda: all_committed(log))
    assert flushed == 100
    assert rounds < 20


async def test_stop_finishes_what_runs_commits_it_and_hands_the_rest_back(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    running = 0
    seen: list[bytes] = []

    async def handle(record: Record) -> None:
        nonlocal running
        running += 1
        try:
            started.set()
            await go.wait()
            seen.append(record.value)
        finally:
            running -= 1

    for number in range(3):
        await publish(door, TOPIC, b"%d" % number, key=b"k")
    worker = await work(handle)
    await started.wait()
    stopping = asyncio.create_task(worker.consumption.stop())
    await asyncio.sleep(0.05)
    assert not stopping.done()
    go.set()
    async with asyncio.timeout(HANG_S):
        await stopping

    assert seen == [b"0"]
    assert running == 0
    assert sum(offset or 0 for offset in (await committed(log)).values()) == 1
    await worker.broker.stop()

    await work(handle)
    await until(lambda: all_committed(log))
    assert seen == [b"0", b"1", b"2"]


async def test_stop_gives_up_a_handler_that_hangs_and_one_that_waits(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    started: set[int] = set()

    async def handle(record: Record) -> None:
        started.add(record.partition)
        if record.partition == 0:
            raise Unavailable("away for long")
        await asyncio.Event().wait()

    for partition in (0, 1):
        await publish(door, TOPIC, b"", key=key(partition))
    worker = await work(handle, drain_s=0.1, backoff=Backoff(1000.0, 1000.0))
    await until(lambda: started == {0, 1})

    async with asyncio.timeout(HANG_S):
        await worker.stop()

    assert await committed(log) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert worker.consumption.in_flight == 0


@KAFKA_ONLY
async def test_a_partition_that_moves_is_drained_first(
    harness: Harness, log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go = asyncio.Event()
    seen: list[tuple[str, int, int]] = []

    def handler(name: str) -> Handle:
        async def handle(record: Record) -> None:
            await go.wait()
            seen.append((name, record.partition, record.offset))

        return handle

    for partition in range(4):
        for _ in range(3):
            await publish(door, TOPIC, b"", key=key(partition))
    first = await work(handler("first"))
    await until(lambda: first.consumption.in_flight == 12)
    moving, revoked = asyncio.Event(), first.consumption.on_partitions_revoked

    async def told(tps: Iterable[TopicPartition]) -> None:
        moving.set()
        await revoked(tps)

    first.consumption.on_partitions_revoked = told  # type: ignore[method-assign]  # only listened to
    second = await work(handler("second"), log=await harness.join())
    async with asyncio.timeout(HANG_S):
        await moving.wait()
    await asyncio.sleep(0.1)
    assert second.consumption.in_flight == 0

    go.set()
    await until(lambda: all_committed(log))

    # One ran in each partition when two of them moved; what followed it came once, from its new owner.
    assert sorted((partition, offset) for _, partition, offset in seen) == [(p, o) for p in range(4) for o in range(3)]
    for partition in range(4):
        mine = [(name, offset) for name, p, offset in seen if p == partition]
        assert [offset for _, offset in mine] == [0, 1, 2]
    assert {name for name, _, _ in seen} == {"first", "second"}


@KAFKA_ONLY
async def test_a_zombie_that_finishes_late_commits_nothing(
    harness: Harness, log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    asleep, stuck, woken = asyncio.Event(), asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def sleeper(record: Record) -> None:
        stuck.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asleep.wait()
            woken.set()

    async def second(record: Record) -> None:
        seen.append("second")
        raise Unavailable("not done yet")

    await publish(door, TOPIC, b"", key=key(3))
    first = await work(sleeper, drain_s=0.05)
    await stuck.wait()
    late = await work(second, log=await harness.join())
    assert first.consumption.in_flight == 1
    asleep.set()
    # Not until nothing is in flight: back in the group, the first may have been given the same partition.
    await woken.wait()
    await first.stop()
    await until(lambda: "second" in seen)

    assert (await committed(log))[3] == 0
    assert late.consumption.waiting


async def test_what_is_in_flight_is_bounded_in_number_and_in_bytes(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go = asyncio.Event()

    async def handle(record: Record) -> None:
        await go.wait()

    names = [b"%d" % number for number in range(60)]
    for _ in range(5):
        await asyncio.gather(*(publish(door, TOPIC, b"x" * 1000, key=name, route=key(0)) for name in names))
    await asyncio.gather(*(publish(door, TOPIC, b"x" * 100_000, key=name, route=key(1)) for name in names[:30]))
    worker = await work(handle, key_concurrency=2, max_in_flight=40, max_in_flight_bytes=500_000, max_records=10)
    await until(lambda: worker.consumption.in_flight >= 4 * 40)
    await asyncio.sleep(0.2)

    assert worker.consumption.in_flight <= (4 * 40 + 10) + (5 + 10)

    go.set()
    await until(lambda: all_committed(log))
    assert worker.consumption.handled == 330


async def test_thousands_of_records_of_one_key_hold_up_their_own_key_only(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go, seen = asyncio.Event(), defaultdict[bytes, list[bytes]](list)

    async def handle(record: Record) -> None:
        assert (record.value is None) == (len(seen[record.key]) == 150)
        assert ("h", b"1") in record.headers
        if record.key == key(0):
            await go.wait()
        seen[record.key].append(record.value or b"")

    lengths = {3: 20_000, 4: 20_000, 70: 20_000}  # of some that are large
    values = [None if number == 150 else b"%d" % number * lengths.get(number, 300) for number in range(300)]
    for value in values:
        await publish(door, TOPIC, value, key=key(0), headers={"h": "1"})
    await publish(door, TOPIC, b"next", key=b"other", route=key(0), headers={"h": "1"})
    worker = await work(handle, max_in_flight=40, max_in_flight_bytes=30_000, max_records=10)
    await until(lambda: b"other" in seen)
    assert not seen[key(0)]

    go.set()
    await until(lambda: all_committed(log))
    assert seen[key(0)] == [value or b"" for value in values]
    assert worker.consumption.handled == 301


async def test_all_partitions_together_have_a_number_of_records_in_hand(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    running, most = 0, 0

    async def handle(record: Record) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    for number in range(60):
        await asyncio.gather(*(publish(door, TOPIC, b"v", key=b"%d" % number, route=key(p)) for p in range(4)))
    await work(handle, key_concurrency=8)
    await until(lambda: all_committed(log))

    assert 4 <= most <= 8 + 4 + 2 + 2  # the first partition that comes doesn't know of the others


async def test_a_neighbours_record_behind_hundreds_of_one_tenant_is_among_the_first(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go, seen = asyncio.Event(), list[str]()

    async def handle(record: Record) -> None:
        await go.wait()
        seen.extend(tenants_of(record))

    for number in range(600):
        await publish(door, TOPIC, b'{"tenant":"many"}', key=b"%d" % number, route=key(0))
    await publish(door, TOPIC, b'{"document":{"tenant":"one"}}', key=b"other", route=key(0))
    worker = await work(handle, key_concurrency=1)
    await until(lambda: worker.consumption.in_flight == 601)
    go.set()
    await until(lambda: all_committed(log))

    assert seen.index("one") <= 2


async def test_falling_behind_retention_breaks_the_consumption_with_a_sentence(
    harness: Harness, log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    seen: list[bytes] = []

    async def handle(record: Record) -> None:
        seen.append(record.value)

    await (await work(handle)).stop()
    await publish(door, TOPIC, b"lost", key=b"k")
    await harness.forget(TOPIC)
    await publish(door, TOPIC, b"after", key=b"k")
    worker = await work(handle)
    await until(lambda: worker.consumption.broken is not None)

    assert "out of range" in str(worker.consumption.broken)
    assert seen == []


async def test_records_that_are_far_apart_are_read_again_without_a_wait_for_each(
    door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    async def handle(record: Record) -> None: ...

    await asyncio.gather(*(publish(door, TOPIC, b"x", key=key(0)) for _ in range(1000)))
    worker = await work(handle)
    async with asyncio.timeout(10), worker.consumption.read(TopicPartition(TOPIC, 0)) as reader:
        found = await reader.at(range(0, 1000, 25))  # 40 seeks

    assert len(found) == 40


async def test_what_retention_deletes_before_it_is_read_again_is_not_skipped(
    harness: Harness, log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    go, seen = asyncio.Event(), list[bytes]()

    async def handle(record: Record) -> None:
        await go.wait()
        seen.append(record.value)

    class Late(Reader):
        async def at(self, offsets: Iterable[int]) -> dict[int, Record]:
            await harness.forget(TOPIC)
            return await super().at(offsets)

    @asynccontextmanager
    async def late(tp: TopicPartition) -> AsyncIterator[Reader]:
        async with read(tp) as reader:
            yield Late(reader._consumer, tp)

    values = [b"%d" % number for number in range(20)]
    for value in values:
        await publish(door, TOPIC, value, key=key(0))
    worker = await work(handle)
    read, worker.consumption.read = worker.consumption.read, late
    await until(lambda: worker.consumption.in_flight == 20)
    go.set()
    await until(lambda: worker.consumption.broken is not None or worker.consumption.in_flight == 0)

    assert f"/0/{HELD} was deleted before it was handled" in str(worker.consumption.broken)
    assert seen == values[:HELD]


class Ends:
    """Handles records, but for those of `stuck`, which it never finishes; notes what it has started, and how."""

    def __init__(self, *stuck: int) -> None:
        self.started: list[int] = []
        self.started_alone: list[int] = []
        self._stuck = {b"%d" % number for number in stuck}

    async def __call__(self, record: Record) -> None:
        self.started.append(int(record.value))
        if record.value in self._stuck:
            await asyncio.Event().wait()

    async def alone(self, record: Record) -> None:
        self.started_alone.append(int(record.value))


async def send(door: KafkaBroker, numbers: Iterable[int]) -> None:
    """Publish numbers as records of partition 0, in order, each third under a key of its own."""
    for number in numbers:
        await publish(door, TOPIC, b"%d" % number, key=b"k%d" % number, route=key(0))


async def died(worker: Worker) -> None:
    """Let the worker's consumer go, as it goes when the process is killed: its partitions aren't closed."""
    await worker.broker.stop()


async def test_a_record_s_task_has_nothing_of_another_record_s(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    mark: ContextVar[bytes | None] = ContextVar("mark", default=None)
    marks: list[bytes | None] = []

    async def handle(record: Record) -> None:
        marks.append(mark.get())
        mark.set(record.value)

    await send(door, range(20))
    await work(handle, key_concurrency=1)  # the end of each starts the next
    await until(lambda: all_committed(log))

    assert marks == [None] * 20


@CI_ONLY
async def test_what_was_under_way_when_a_worker_died_is_handled_alone_and_what_comes_later_is_not(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    await send(door, range(8))
    first = Ends(5)
    dying = await work(first, handle_alone=first.alone)
    await until(lambda: sorted(first.started) == [*range(8)])
    await died(dying)

    second = Ends()
    worker = await work(second, handle_alone=second.alone)
    await until(lambda: all_committed(log))
    await worker.stop()
    await send(door, range(8, 10))
    third = Ends()
    await work(third, handle_alone=third.alone)
    await until(lambda: all_committed(log))

    assert first.started_alone == []
    assert 5 in second.started_alone
    assert second.started == []
    assert (sorted(third.started), third.started_alone) == ([8, 9], [])


async def test_what_hung_when_its_worker_was_stopped_is_handled_alone(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    await send(door, range(3))
    first = Ends(1)
    hung = await work(first, handle_alone=first.alone, drain_s=0.1)
    await until(lambda: sorted(first.started) == [*range(3)])
    await hung.stop()
    await send(door, range(3, 5))

    second = Ends()
    await work(second, handle_alone=second.alone)
    await until(lambda: all_committed(log))

    assert second.started_alone == [1, 2]
    assert second.started == [3, 4]


@CI_ONLY
async def test_what_was_read_ahead_of_what_was_started_is_not_handled_alone(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    await send(door, range(500))
    first = Ends(0)
    dying = await work(first, handle_alone=first.alone, key_concurrency=1)
    await until(lambda: dying.consumption.in_flight == 500)
    await died(dying)

    second = Ends()
    await work(second, handle_alone=second.alone)
    await until(lambda: all_committed(log))

    assert 0 in second.started_alone
    assert len(second.started_alone) < 150


@CI_ONLY
async def test_a_second_death_among_what_is_handled_alone_forgets_none_of_it(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    await send(door, range(300))
    first = Ends(*range(300))
    dying = await work(first, handle_alone=first.alone, key_concurrency=1000, max_in_flight=1000)
    await until(lambda: len(first.started) == 300)
    await died(dying)

    second = Ends(*range(300))
    dying = await work(second, handle_alone=second, max_in_flight=1, max_records=1)
    await until(lambda: len(second.started) == 1)
    await died(dying)
    third = Ends()
    await work(third, handle_alone=third.alone)
    await until(lambda: all_committed(log))

    assert sorted(third.started_alone) == [*range(300)]
    assert third.started == []


async def test_a_mark_is_there_before_the_records_it_speaks_of_and_rides_on_every_commit(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]], users: AsyncExitStack
) -> None:
    tool = log.consumer(group_id=GROUP)
    seen: list[tuple[int, str]] = []

    async def handle(record: Record) -> None:
        seen.append((record.offset, await tool.committed_metadata(TopicPartition(TOPIC, 0))))

    tool.assign([TopicPartition(TOPIC, 0)])
    await tool.start()
    users.push_async_callback(tool.stop)
    await work(handle, handle_alone=handle)
    for start in range(0, 400, 40):
        await send(door, range(start, start + 40))
    await until(lambda: all_committed(log))

    assert [offset for offset, mark in seen if int(mark.removeprefix("under-way:")) <= offset] == []


@CI_ONLY
async def test_metadata_of_another_release_and_a_stage_without_marks_change_nothing(
    log: Log, door: KafkaBroker, work: Callable[..., Awaitable[Worker]]
) -> None:
    await send(door, range(3))
    tool = log.consumer(group_id=GROUP)
    tool.assign([TopicPartition(TOPIC, 0)])
    await tool.start()
    await tool.commit({TopicPartition(TOPIC, 0): (1, "under-way:0,1,2")})
    await tool.stop()
    ends = Ends(2)
    await work(ends, handle_alone=ends.alone)
    await until(lambda: sorted(ends.started) == [1, 2])

    assert ends.started_alone == []
