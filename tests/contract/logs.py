"""The logs the contract suites run on, and how the suites use them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiokafka import TopicPartition

from shared.log import Log, Record
from shared.log.kafka import KafkaAddress, KafkaLog
from shared.log.sqlite import SqliteLog, compaction
from shared.log.sqlite.file import connect
from tests.contract.kafka_harness import KafkaHarness, empty
from tests.selection import CI_ONLY

HANG_S = 60


class Harness(Protocol):
    """One log, seen by any number of users, and what an operator can do to it."""

    async def join(self) -> Log:
        """Return the log as one more process would open it."""
        ...

    async def compact(self, topic: str) -> int:
        """Return how many records it had to append; they are behind all others, each under a key of its own."""
        ...

    async def forget(self, topic: str) -> None:
        """Lose every record of the topic, read or not."""
        ...

    async def close(self) -> None: ...


class SqliteHarness:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "log.db"
        self._joined: list[SqliteLog] = []

    async def join(self) -> SqliteLog:
        log = SqliteLog(self._path)
        await log.start()
        self._joined.append(log)
        return log

    async def compact(self, topic: str) -> int:
        await compaction.compact(self._joined[0]._storage, topic)
        return 0

    async def forget(self, topic: str) -> None:
        # Its retention spares what a group has yet to read; whoever writes to the file needn't.
        with closing(connect(self._path)) as file:
            file.execute("BEGIN IMMEDIATE")
            of_topic = "(SELECT partition.id FROM partition JOIN topic ON topic.id = topic WHERE name = ?)"
            file.execute(f"DELETE FROM record WHERE partition IN {of_topic}", (topic,))
            file.execute(f"UPDATE partition SET start = next WHERE id IN {of_topic}", (topic,))
            file.execute("COMMIT")

    async def close(self) -> None:
        for log in reversed(self._joined):
            await log.stop()


_KAFKA = pytest.param("kafka", marks=pytest.mark.server)
ADAPTERS = ("sqlite", _KAFKA)
# The SQLite log has one reader per group, so nothing moves from member to member.
KAFKA_ONLY = pytest.mark.parametrize("harness", [_KAFKA], indirect=True)


def harness_of(request: pytest.FixtureRequest, folder: Path) -> Harness:
    """Return the harness of one of ADAPTERS."""
    if request.param == "kafka":
        return KafkaHarness(request.getfixturevalue("kafka_address"))
    return SqliteHarness(folder)


@pytest.fixture(params=ADAPTERS)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    """Give each log in turn, with what a test does to it."""
    harness = harness_of(request, tmp_path)
    yield harness
    await harness.close()


@pytest.fixture
async def users() -> AsyncIterator[AsyncExitStack]:
    """Give a stack; what is entered there is stopped after the test, the last first."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(params=("sqlite", pytest.param("kafka", marks=[pytest.mark.server, CI_ONLY])))
async def unstarted_log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Give each empty log in turn."""
    if request.param == "sqlite":
        return SqliteLog(tmp_path / "log.db")
    address = request.getfixturevalue("kafka_address")
    await empty(address)
    return KafkaLog(KafkaAddress(servers=(address,)), heartbeat_ms=100)


async def reading(users: AsyncExitStack, consumer: Any, tps: Iterable[TopicPartition]) -> Any:
    consumer.assign(list(tps))
    await consumer.start()
    users.push_async_callback(consumer.stop)
    return consumer


async def member(
    users: AsyncExitStack, log: Log, group: str, *topics: str, listener: Any = None, **options: Any
) -> Any:
    consumer = log.consumer(group_id=group, auto_offset_reset="none", **options)
    consumer.subscribe(topics, listener=listener)
    await consumer.start()
    users.push_async_callback(consumer.stop)
    return consumer


async def take(consumer: Any, count: int) -> list[Record]:
    taken: list[Record] = []
    async with asyncio.timeout(HANG_S):
        while len(taken) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                taken += records
    return taken


async def until(happened: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while True:
            answer = happened()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


def all_of(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]
