"""One writer thread with group commit, one reader thread, and notification of other processes' writes."""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from shared.log import LogUnavailable
from shared.log.background import repeat
from shared.log.sqlite.clock import Reading, boot_id, tick
from shared.log.sqlite.file import Connect, WriteTurn, failures_named, open_reader, open_writer
from shared.settings import ConfigurationError
from shared.topics import Topic

log = logging.getLogger(__name__)

T = TypeVar("T")
Operation = Callable[["Transaction"], T]

# The process may die between any two of these steps; the crash tests kill it at each.
STEPS = ("begun", "applied", "tails", "committed", "acknowledged", "listed", "swept", "checkpointed")
Step = Callable[[str], None]

_GROUP_RECORDS, _GROUP_BYTES = 256, 8 << 20  # largest transaction: bounds memory and the next one's wait
_SPEC = ("name", "partitions", "cleanup", "retention_ms", "max_record_bytes", "compaction_lag_ms")
_TOPICS = f"SELECT id, {', '.join(_SPEC)} FROM topic"  # noqa: S608 - our own names
_POLL_S = 0.075  # interval of looking for other processes' writes


class KnownTopic(msgspec.Struct, frozen=True):
    """A topic in the file; `ids` are its partitions' row ids, in order."""

    spec: Topic
    ids: tuple[int, ...]


class Tail(msgspec.Struct):
    """The next offset of a partition and its last time."""

    next: int
    time: int  # ms since 1970 of the last record


class Transaction:
    """A write transaction, shared by all writes of one turn of the event loop.

    An operation that refuses raises a KafkaError or ConfigurationError before its first write;
    then the others go on. Any other error undoes the whole transaction.
    """

    def __init__(self, connection: sqlite3.Connection, now: Callable[[], int]) -> None:
        self.connection = connection
        self._now = now
        self.tails: dict[int, Tail] = {}

    def append(self, partition: int, key: bytes | None, headers: bytes, value: bytes | None) -> tuple[int, int]:
        """Return the record's offset and its append time, which never decreases within a partition."""
        tail = self.tails.get(partition)
        if tail is None:
            row = self.connection.execute("SELECT next, time FROM partition WHERE id = ?", (partition,)).fetchone()
            tail = self.tails[partition] = Tail(*row)
        offset = tail.next
        tail.time = max(tail.time, self._now())
        self.connection.execute(
            "INSERT INTO record(partition, offset, time, key, headers, value) VALUES (?, ?, ?, ?, ?, ?)",
            (partition, offset, tail.time, key, headers, value),
        )
        tail.next += 1
        return offset, tail.time

    def write_tails(self) -> None:
        """Store the partitions' next offsets."""
        self.connection.executemany(
            "UPDATE partition SET next = ?, time = ? WHERE id = ?",
            [(tail.next, tail.time, partition) for partition, tail in self.tails.items()],
        )


class _Queued(msgspec.Struct):
    operation: Operation[Any]
    size: int
    future: asyncio.Future[Any]


class Storage:
    """The open file. Nothing here runs SQLite on the event loop."""

    def __init__(
        self, path: Path, *, connect: Connect, step: Step, now: Callable[[], int], boot: Callable[[], float]
    ) -> None:
        self.path = path
        self.now = now
        self.step = step
        self.moves = 0  # as `Log.moves`
        self.topics: dict[str, KnownTopic] = {}
        self.ends: dict[int, int] = {}  # next offset by partition id, as last seen
        self._boot = boot
        self.connect = connect
        self._queue: deque[_Queued] = deque()
        self._queued = asyncio.Event()
        # Called on the event loop after a write, by any process, with the partitions whose ends have moved.
        self.watchers: set[Callable[[Collection[int]], None]] = set()
        self._writer: sqlite3.Connection | None = None
        self._seen = -1
        self._closing = False
        self._running = False
        self._repeated = AsyncExitStack()

    # Life

    async def start(self) -> None:
        """Open the file, or create it.

        Raises:
            ConfigurationError: it is no log of ours, or has another format.
            LogUnavailable: it can't be opened now.
        """
        self._loop = asyncio.get_running_loop()
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="log-write")
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="log-read")
        self._closing = False
        try:
            await self._loop.run_in_executor(self._write_thread, self._open)
        except BaseException:
            self._write_thread.shutdown()
            self._read_thread.shutdown()
            raise
        self._running = True
        self._writing = asyncio.create_task(self._write_for_ever(), name="log-write")
        repeat(self._repeated, self._poll, _POLL_S, "log_unreadable", at_once=False)
        await self.refresh()  # last, so that a caller cancelled here can still stop the storage

    async def stop(self) -> None:
        """Write the queued operations, then close."""
        if not self._running:
            return
        self._running = False
        await self._repeated.aclose()
        self._closing = True
        self._queued.set()
        await asyncio.gather(self._writing, return_exceptions=True)
        await self._loop.run_in_executor(self._read_thread, self._reader.close)
        await self._loop.run_in_executor(self._write_thread, self._close)
        self._write_thread.shutdown()
        self._read_thread.shutdown()

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Only this user may read it, because it contains documents. SQLite gives its side files the same mode.
            self.path.touch(mode=0o600)
            with failures_named(self.path), ExitStack() as undo:
                self._turn = WriteTurn(self.path)
                undo.callback(self._turn.close)
                with self._turn.taken():
                    self._writer = open_writer(self.path, self.connect)
                undo.callback(self._writer.close)
                self._reader = open_reader(self.path, self.connect)
                undo.pop_all()
        except OSError as error:
            raise LogUnavailable(f"the log {self.path} can't be opened: {error.strerror}", "log_unavailable") from error

    def _close(self) -> None:
        # Closing the last connection runs a checkpoint, which needs the write lock, too. If it can't be had, the next
        # start runs the checkpoint.
        with suppress(sqlite3.Error, LogUnavailable), self._turn.taken():
            if self._writer is not None:
                self._writer.close()
        self._writer = None
        self._turn.close()

    # Writing

    def submit(self, operation: Operation[T], size: int = 0) -> asyncio.Future[T]:
        """Return a future that is done when `operation` is on disk; `size` bytes bound the group.

        It fails with what `operation` raised, or with LogUnavailable. Operations run in the order given.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closing or not self._running or self._writing.done():
            future.set_exception(self._is_closed())
            return future
        self._queue.append(_Queued(operation, size, future))
        self._queued.set()
        return future

    async def tick(self) -> int:
        """Return the log's age in ms, and record its partitions' ends. See `age`."""
        return await self.submit(
            lambda transaction: tick(transaction.connection, Reading(boot_id(), int(self._boot() * 1000), self.now()))
        )

    async def maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`, which runs between transactions on the writing connection."""
        return await self._loop.run_in_executor(self._write_thread, self._maintain, work)

    def _is_closed(self) -> LogUnavailable:
        return LogUnavailable(f"the log {self.path.name} is closed", "log_closed")

    async def _write_for_ever(self) -> None:
        group: list[_Queued] = []
        try:
            while True:
                await self._queued.wait()
                group = self._take_group()
                if not group:
                    if self._closing:
                        return
                    self._queued.clear()
                    continue
                try:
                    outcomes, ends = await self._loop.run_in_executor(
                        self._write_thread, self._transact, [queued.operation for queued in group]
                    )
                except Exception as error:  # noqa: BLE001 - the waiting callers must get any error
                    outcomes, ends = [error] * len(group), {}
                self.saw_ends(ends)
                for queued, outcome in zip(group, outcomes, strict=True):
                    if queued.future.done():  # its caller gave up waiting
                        continue
                    if isinstance(outcome, Exception):
                        queued.future.set_exception(outcome)
                    else:
                        queued.future.set_result(outcome)
                self.step("acknowledged")
        finally:
            # Cancelled with all tasks of its loop: callers that are still stopping must not wait for ever.
            for queued in (*group, *self._queue):
                if not queued.future.done():
                    queued.future.set_exception(self._is_closed())
            self._queue.clear()

    def _take_group(self) -> list[_Queued]:
        group: list[_Queued] = []
        size = 0
        while self._queue and len(group) < _GROUP_RECORDS and size < _GROUP_BYTES:
            group.append(self._queue.popleft())
            size += group[-1].size
        return group

    def _transact(self, operations: Sequence[Operation[Any]]) -> tuple[list[Any], dict[int, int]]:
        outcomes: list[Any] = []
        with self._turn.taken(), failures_named(self.path):
            connection = self._writing_connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                self.step("begun")
                transaction = Transaction(connection, self.now)
                for operation in operations:
                    try:
                        outcomes.append(operation(transaction))
                    except (KafkaError, ConfigurationError) as refusal:
                        outcomes.append(refusal)
                    self.step("applied")
                transaction.write_tails()
                self.step("tails")
                connection.execute("COMMIT")
                self.step("committed")
            except BaseException:
                self._undo(connection)
                raise
        return outcomes, {partition: tail.next for partition, tail in transaction.tails.items()}

    def _maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turn.taken(), failures_named(self.path):
            connection = self._writing_connection()
            try:
                return work(connection)
            except sqlite3.Error:
                self._undo(connection)
                raise

    def _writing_connection(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = open_writer(self.path, self.connect)
        return self._writer

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection whose rollback fails is closed; closing rolls back, too.
            with suppress(sqlite3.Error):
                connection.close()
            self._writer = None

    # Reading

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `query` on a consistent view of the file.

        Raises:
            LogUnavailable: the file can't be read now.
        """
        if not self._running:
            raise self._is_closed()
        return await self._loop.run_in_executor(self._read_thread, self._read, query)

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with failures_named(self.path):
            self._reader.execute("BEGIN")
            try:
                return query(self._reader)
            finally:
                self._reader.rollback()  # unless SQLite did so: then what failed would be told as this

    async def topic(self, name: str) -> KnownTopic:
        """Return the topic.

        Raises:
            UnknownTopicOrPartitionError: nobody made it.
        """
        if name not in self.topics:
            await self.refresh()
        try:
            return self.topics[name]
        except KeyError:
            raise UnknownTopicOrPartitionError(f"the log {self.path.name} has no topic {name!r}") from None

    # Notification

    def saw_ends(self, ends: Mapping[int, int]) -> None:
        """Take the next offsets of partitions, as read from the file, and call the watchers if that is news."""
        moved = {partition for partition, end in ends.items() if end > self.ends.get(partition, -1)}
        self.ends.update((partition, ends[partition]) for partition in moved)
        for wake in tuple(self.watchers) if moved else ():
            try:
                wake(moved)
            except Exception:  # else others would wait for these records, and a writer of them for its answer
                log.exception("log_watcher_failed")

    async def refresh(self) -> None:
        """Look for other processes' writes, and call the watchers."""
        news = await self.read(self._news)
        if news is None:
            return
        # Recorded only here: if the caller is cancelled before, the change is reported again.
        self._seen, self.topics, ends = news
        self.saw_ends(ends)

    def _news(self, connection: sqlite3.Connection) -> tuple[int, dict[str, KnownTopic], dict[int, int]] | None:
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == self._seen:
            return None
        ids: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        for partition, topic, end in connection.execute("SELECT id, topic, next FROM partition ORDER BY topic, number"):
            ids.setdefault(topic, []).append(partition)
            ends[partition] = end
        specs = {id_: Topic(**dict(zip(_SPEC, spec, strict=True))) for id_, *spec in connection.execute(_TOPICS)}
        return version, {spec.name: KnownTopic(spec, tuple(ids[id_])) for id_, spec in specs.items()}, ends

    async def _poll(self) -> None:
        if self.watchers:
            await self.refresh()
