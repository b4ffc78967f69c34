"""What only the SQLite log can be asked."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shared.errors import Unavailable
from shared.log.publish import publish
from shared.log.sqlite import LogUnavailable, SqliteLog, compaction, file, upkeep
from shared.log.sqlite.compaction import TOMBSTONE_MS
from shared.log.sqlite.file import FORMAT, WriteTurn
from shared.log.sqlite.storage import Storage
from shared.settings import ConfigurationError
from shared.topics import Topic
from tests.contract.logs import HANG_S, member

TRUTH = Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None)
TP = TopicPartition("truth", 0)


class Clock:
    """ms since 1970, as set, and seconds since the machine started."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self.boot_s = 1000.0

    def __call__(self) -> int:
        return self.ms

    def boot(self) -> float:
        return self.boot_s

    def passes(self, ms: int) -> None:
        self.ms += ms
        self.boot_s += ms / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened() -> list[sqlite3.Connection]:
    """Every connection the log has opened, the writing one first."""
    return []


@pytest.fixture
async def log(tmp_path: Path, clock: Clock, opened: list[sqlite3.Connection]) -> AsyncIterator[SqliteLog]:
    def connect(path: Path) -> sqlite3.Connection:
        opened.append(file.connect(path))
        return opened[-1]

    log = SqliteLog(tmp_path / "log.db", now=clock, boot=clock.boot, connect=connect)
    await log.start()
    await log.ensure_topics([TRUTH])
    yield log
    await log.stop()


async def values(log: SqliteLog) -> list[bytes | None]:
    consumer = log.consumer(auto_offset_reset="earliest")
    consumer.assign([TP])
    await consumer.start()
    found = [r.value for records in (await consumer.getmany()).values() for r in records]
    await consumer.stop()
    return found


@pytest.mark.parametrize("number", [FORMAT + 1, FORMAT - 2])
async def test_a_file_of_another_format_is_refused_and_left_alone(tmp_path: Path, number: int) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    await log.start()
    await log.stop()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=rf"log\.db has format {number}, .* reads format {FORMAT}: .* choose"):
        await SqliteLog(path).start()

    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["text", "sqlite"])
async def test_somebody_elses_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.db"
    if content == "text":
        path.write_bytes(b"not a database, but long enough to be mistaken for one" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs(x)")
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=r"log\.db is not a log of Sluice"):
        await SqliteLog(path).start()

    assert path.read_bytes() == before


async def test_a_folder_that_can_not_be_written_is_unavailable_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(LogUnavailable, match="file"):
        await SqliteLog(tmp_path / "file" / "log.db").start()


@pytest.mark.parametrize("name", ["log.db", "log.db-wal", "log.db.lock"])
async def test_the_file_is_nobody_elses_to_read(log: SqliteLog, tmp_path: Path, name: str) -> None:
    assert (tmp_path / name).stat().st_mode & 0o077 == 0


async def test_append_times_never_fall_when_the_clock_does(log: SqliteLog, clock: Clock, users: AsyncExitStack) -> None:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    times = []
    for ms in (1000, 3000, 2000, 2500, 4000):
        clock.ms = ms
        times.append((await publish(broker, "truth", b"", key=b"k")).timestamp)

    assert times == [1000, 3000, 3000, 3000, 4000]


async def test_a_full_file_refuses_and_goes_on_when_there_is_room(
    log: SqliteLog, opened: list[sqlite3.Connection], users: AsyncExitStack
) -> None:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    consumer = log.consumer(group_id="g")
    consumer.subscribe(["truth"])
    await consumer.start()
    users.push_async_callback(consumer.stop)
    pages = opened[0].execute("PRAGMA page_count").fetchone()[0]
    opened[0].execute(f"PRAGMA max_page_count = {pages + 20}")
    stored = []

    async def fill() -> None:
        for number in range(100):
            await publish(broker, "truth", b"%d" % number + b"x" * 9000, key=b"k")
            stored.append(number)

    with pytest.raises(Unavailable, match="full"):
        await fill()
    with pytest.raises(KafkaError):
        await (await broker.config.broker_config.producer._producer.producer.send("truth", b"x" * 9000, b"k"))  # type: ignore[attr-defined]

    assert 0 < len(stored) < 100
    assert await consumer.getmany(max_records=len(stored))  # what is there can still be read
    assert [len(value or b"") > 9000 for value in await values(log)] == [True] * len(stored)

    opened[0].execute("PRAGMA max_page_count = 100000")
    again = await publish(broker, "truth", b"room", key=b"k")
    await consumer.commit()
    assert again.offset == len(stored)
    assert (await values(log))[-1] == b"room"


async def test_a_locked_file_is_unavailable_and_later_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_BUSY_S", 0.05)
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as tool:
        tool.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailable, match="locked"):
            await log.ensure_topics([TRUTH])
        tool.execute("ROLLBACK")

    await log.ensure_topics([TRUTH])
    await log.stop()


def test_writers_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_BUSY_S", 0.02)
    first, second = WriteTurn(tmp_path / "log.db"), WriteTurn(tmp_path / "log.db")
    with first.taken(), pytest.raises(LogUnavailable, match="another process"), second.taken():
        pass

    with second.taken():
        pass
    first.close()
    second.close()


async def test_a_write_is_news_of_its_partition_alone_and_once_to_each_process(
    log: SqliteLog, tmp_path: Path, users: AsyncExitStack
) -> None:
    await log.ensure_topics([Topic(name="other")])
    writer, another = (
        Storage(tmp_path / "log.db", connect=file.connect, step=lambda _: None, now=Clock(), boot=Clock().boot)
        for _ in range(2)
    )
    heard: list[tuple[str, set[int]]] = []
    for storage in (writer, another):
        await storage.start()
        users.push_async_callback(storage.stop)
    writer.watchers.add(lambda moved: heard.append(("writer", {*moved})))
    another.watchers.add(lambda moved: heard.append(("another", {*moved})))
    [truth] = (await writer.topic("truth")).ids

    await writer.submit(lambda transaction: transaction.append(truth, b"k", b"\x90", b"v"))
    await asyncio.gather(writer.refresh(), another.refresh())
    await asyncio.gather(writer.refresh(), another.refresh())

    assert heard == [("writer", {truth}), ("another", {truth})]


async def test_one_refused_operation_leaves_the_others_of_its_group(log: SqliteLog) -> None:
    both = await asyncio.gather(
        log.ensure_topics([Topic(name="fresh", partitions=2)]),
        log.ensure_topics([Topic(name="truth", cleanup="delete")]),
        return_exceptions=True,
    )

    assert both[0] is None
    assert isinstance(both[1], ConfigurationError)
    assert len(await log.end_offsets("fresh")) == 2


async def test_old_tombstones_go_after_what_they_cover_and_the_last_record_stays(
    log: SqliteLog, clock: Clock, users: AsyncExitStack
) -> None:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    for value in (b"1", None):
        await publish(broker, "truth", value, key=b"gone")
    await publish(broker, "truth", b"kept", key=b"kept")
    await publish(broker, "truth", None, key=b"last")

    await compaction.compact(log._storage, "truth")
    assert await values(log) == [None, b"kept", None]

    clock.passes(TOMBSTONE_MS)
    await compaction.compact(log._storage, "truth")
    assert await values(log) == [b"kept", None]


async def test_a_reader_steps_over_a_gap_at_the_end(
    log: SqliteLog, opened: list[sqlite3.Connection], users: AsyncExitStack
) -> None:
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    for value in (b"1", b"2", b"3"):
        await publish(broker, "truth", value, key=value)
    opened[0].execute("DELETE FROM record WHERE offset > 0")
    consumer = log.consumer(auto_offset_reset="earliest")
    consumer.assign([TP])
    await consumer.start()
    users.push_async_callback(consumer.stop)

    async with asyncio.timeout(HANG_S):
        [[record]] = (await consumer.getmany(timeout_ms=60_000, max_records=1)).values()
        assert record.value == b"1"
        assert await consumer.getmany(timeout_ms=10) == {}

    assert await consumer.position(TP) == 3


async def test_room_comes_back(log: SqliteLog, tmp_path: Path, clock: Clock, users: AsyncExitStack) -> None:
    await log.ensure_topics([Topic(name="events", partitions=1, retention_ms=1000)])
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    await asyncio.gather(*(publish(broker, "events", b"x" * 50_000, key=b"k") for _ in range(60)))
    await log.keep_up()
    full = (tmp_path / "log.db").stat().st_size

    clock.passes(2000)
    await log.keep_up()

    assert full > 3_000_000
    assert (tmp_path / "log.db").stat().st_size < 200_000
    assert (tmp_path / "log.db-wal").stat().st_size == 0


async def test_retention_spares_what_a_group_has_yet_to_read(
    log: SqliteLog, clock: Clock, users: AsyncExitStack
) -> None:
    await log.ensure_topics([Topic(name="events", partitions=1, retention_ms=1000)])
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    events = TopicPartition("events", 0)
    quick, slow = [await member(users, log, group, "events") for group in ("quick", "slow")]
    for n in range(5):
        await publish(broker, "events", b"%d" % n, key=b"k")
    await quick.commit({events: 5})
    await slow.commit({events: 3})

    await log.keep_up()
    clock.passes(30 * 24 * 3600 * 1000)
    await log.keep_up()

    assert await log.offsets_since("events", 0) == {events: 3}

    await slow.commit({events: 5})
    await log.keep_up()

    assert await log.offsets_since("events", 0) == {events: 5}


async def test_upkeep_comes_by_itself_and_after_a_bug_again(tmp_path: Path, clock: Clock) -> None:
    swept = asyncio.Event()
    loop = asyncio.get_running_loop()
    bugs = [RuntimeError("a bug")]

    def step(name: str) -> None:
        if name == "checkpointed":
            if bugs:
                raise bugs.pop()
            loop.call_soon_threadsafe(swept.set)

    log = SqliteLog(tmp_path / "log.db", upkeep_every_s=0.01, step=step, now=clock)
    await log.start()
    async with asyncio.timeout(HANG_S):
        await swept.wait()
    await log.stop()


async def test_a_read_that_fails_is_told_as_it_failed(log: SqliteLog) -> None:
    def query(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")  # as SQLite does when the disk fails
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(LogUnavailable, match="disk I/O error"):
        await log._storage.read(query)


@pytest.mark.parametrize("own", [True, False], ids=["own", "another"])
async def test_a_bug_at_one_write_of_any_process_hides_neither_it_nor_the_next(
    log: SqliteLog, tmp_path: Path, own: bool
) -> None:
    failed, woken = asyncio.Event(), asyncio.Event()

    def wake_badly(_: Collection[int]) -> None:
        failed.set()
        raise RuntimeError("a bug")

    def wake(_: Collection[int]) -> None:
        woken.set()

    log._storage.watchers |= {wake_badly, wake}
    async with AsyncExitStack() as stack:
        writing = log
        if not own:
            writing = SqliteLog(tmp_path / "log.db")
            await writing.start()
            stack.push_async_callback(writing.stop)
        broker = writing.broker("other")
        await broker.start()
        stack.push_async_callback(broker.stop)
        async with asyncio.timeout(HANG_S):
            for _ in range(2):
                await publish(broker, "truth", b"value", key=b"key")
                await failed.wait()
                await woken.wait()
                failed.clear()
                woken.clear()


async def test_a_long_read_delays_the_end_of_forgetting_and_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_PAUSE_S", 0.0)
    path, tries, written, second = tmp_path / "log.db", 0, False, asyncio.Event()
    loop = asyncio.get_running_loop()
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def step(name: str) -> None:
        nonlocal tries
        tries += name == "checkpointed"
        if tries == 5:
            loop.call_soon_threadsafe(second.set)
        elif tries >= 20 and written:
            reader.close()

    log = SqliteLog(path, step=step)
    await log.start()
    await log.ensure_topics([TRUTH])
    broker = log.broker("writer")
    await broker.start()
    await publish(broker, "truth", b"erased", key=b"k")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM record").fetchone()
    async with asyncio.timeout(HANG_S):
        forgetting = asyncio.create_task(log.forget())
        await second.wait()
        await publish(broker, "truth", None, key=b"k")
        written = True
        await forgetting
    assert tries >= 20
    assert path.with_name("log.db-wal").stat().st_size == 0
    await broker.stop()
    await log.stop()


async def test_a_closed_log_is_unavailable(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([TRUTH])
    broker = log.broker("late")
    await broker.start()
    await broker.stop()
    with pytest.raises(Unavailable, match="not started"):
        await publish(broker, "truth", b"", key=b"k")
    await log.stop()

    with pytest.raises(Unavailable, match="closed"):
        await log.end_offsets("truth")
    with pytest.raises(Unavailable, match="closed"):
        await log.ensure_topics([TRUTH])


async def test_what_is_stopped_after_all_tasks_were_cancelled_ends(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.start()
    await log.ensure_topics([TRUTH])
    reader = await member(AsyncExitStack(), log, "g", "truth")
    broker = log.broker("writer")
    await broker.start()
    sending = asyncio.create_task(publish(broker, "truth", b"v", key=b"k"))
    await asyncio.sleep(0)  # it has been handed over
    cancelled = asyncio.all_tasks() - {asyncio.current_task()}
    for task in cancelled:
        task.cancel()

    async with asyncio.timeout(HANG_S):
        await asyncio.gather(*cancelled, return_exceptions=True)
        await reader.stop()
        with pytest.raises(Unavailable, match="closed"):
            await publish(broker, "truth", b"v", key=b"k")
        await broker.stop()
        await log.stop()

    assert sending.cancelled()


def test_auto_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="commit explicitly"):
        SqliteLog(tmp_path / "log.db").consumer(group_id="g", enable_auto_commit=True)


async def test_offsets_of_all_partitions_are_read_at_once(
    log: SqliteLog, opened: list[sqlite3.Connection], users: AsyncExitStack
) -> None:
    await log.ensure_topics([Topic(name="wide", partitions=8)])
    broker = log.broker("test")
    await broker.start()
    users.push_async_callback(broker.stop)
    for number in range(8):
        await publish(broker, "wide", b"record", key=f"{number}".encode())
    statements: list[str] = []
    opened[1].set_trace_callback(statements.append)
    ends = await log.end_offsets("wide")
    await log.committed("nobody", "wide")
    await log.offsets_since("wide", 0)
    opened[1].set_trace_callback(None)

    assert (len(ends), sum(ends.values())) == (8, 8)
    assert statements.count("BEGIN") == 3
