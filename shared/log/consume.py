"""How every worker consumes a topic.

FastStream delivers batches. Each partition has a lane that handles records of different keys concurrently and commits
its lowest unfinished offset. A record that fails permanently is dead-lettered. A record that needs an unavailable
service is retried until it is back, which holds up its partition and no other. A record with a bounded number of
tries holds up only its own key (docs/adr/0005-retries-dead-letters-replay.md).

A stage with `handle_alone` marks what is under way: the metadata of its committed offset names an offset, and no record
from there on has been started. Each commit puts the mark ahead of what was started, so a commit more is needed only
before a record beyond it. A clean end takes the mark away. Whoever finds one handles the records below it alone.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import msgspec
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, ConsumerStoppedError, IllegalStateError, KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker

from shared import tracing
from shared.errors import Rejected, RetryLater, Unavailable
from shared.log import Record
from shared.log.background import repeat
from shared.log.failure import Backoff, Failure, traceback_digest
from shared.log.headers import check_intact, header
from shared.log.partition_lane import PartitionLane
from shared.log.read import Reader, reading
from shared.times import now_ms

if TYPE_CHECKING:
    from shared.log.faststream_driver import DriverBroker

log = logging.getLogger(__name__)

Crowded = Callable[[], bool]
_aside: ContextVar[Callable[[str], AbstractContextManager[Crowded]]] = ContextVar(
    "aside", default=lambda _: nullcontext(lambda: False)
)

Handle = Callable[[Record], Awaitable[None]]
OnDead = Callable[[Record, Failure], Awaitable[None]]

BUG_ATTEMPTS = 3
_READS_ON = 0.5  # a partition that was paused goes on when it is filled to this part
BREAKER = 50  # bugs or undecodable records in a row; one more opens the breaker
_BUG = "the server failed at this; its log has the details"  # what was raised may name the server's paths
_A_DAY_MS = 24 * 3600 * 1000
_ASIDE_MS = 300_000  # a record that waits for longer holds up the commit; a parser's input at fault does for 600 s
_WAITING_PER_PLACE = 4  # records that wait, in the memory of one that is handled; if started, 15 kB each
_LEFT_PER_PLACE = 256  # records that wait for others of their chain without value and headers: 22 MB of a partition
_AHEAD = 100  # offsets that a mark is ahead of the last record started
_MARK = re.compile(r"under-way:([0-9]{1,18})")


class ConsumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much is under way at once, and how long things wait.

    The in-flight limits are per partition; one fetch may exceed them. A record that pauses between tries, or has
    `stepped_aside`, doesn't count against `key_concurrency`. Against `max_in_flight`, four that wait count as one, as
    do 256 far behind in their chains.
    """

    before_commit: Callable[[], Awaitable[None]] | None = None  # between effects and commit, once for all partitions
    chain_of: Callable[[bytes | None], bytes | None] = lambda key: key  # records of one chain are handled in order
    key_concurrency: int = 32  # of all partitions; others wait for what has started. 4 to 16 each: same speed
    max_in_flight: int = 256
    max_in_flight_bytes: int = 4 << 20
    max_records: int = 100  # of a fetch
    backoff: Backoff = Backoff()
    bug_backoff: Backoff = Backoff(0.1, 0.5)
    drain_s: float = 5.0
    commit_every_s: float = 0.05
    measure_every_s: float = 5.0


def consume(
    broker: KafkaBroker,
    topic: str,
    group: str,
    handle: Handle,
    *,
    on_dead: OnDead,
    stage: str,
    handle_alone: Handle | None = None,
    options: ConsumeOptions = ConsumeOptions(),  # noqa: B008 - frozen
) -> "Consumption":
    """Return the consumption that calls `handle` for every record of `topic`; call this before `broker.start()`.

    `handle` must be idempotent: it may be called again for a record it has handled. What its errors do:
    Rejected, or any other exception three times: `on_dead` is called, and the record is done.
    Unavailable: `handle` is called again until it succeeds; no later offset of the partition is committed before.
    RetryLater: `handle` is called again after the pause and as often as the error says; other keys go on meanwhile.
    `handle_alone` is called instead for records that may have been under way in a worker that ended without closing
    its partitions, because one of them may have killed it. Without it, nothing is marked as under way.
    """
    consumption = Consumption(
        handle, topic=topic, group=group, on_dead=on_dead, stage=stage, handle_alone=handle_alone, options=options
    )
    subscriber = broker.subscriber(
        topic,
        **_RAW_BATCHES,
        group_id=group,
        max_records=options.max_records,
        auto_offset_reset="none",
        listener=consumption,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=3_000,
        rebalance_timeout_ms=int(2 * options.drain_s * 1000) + 5_000,
        max_poll_interval_ms=_A_DAY_MS,  # a worker that waits for the end of an outage is alive
    )

    @subscriber  # type: ignore[untyped-decorator]  # its overloads see no options in a dictionary
    async def dispatch(records: list[Record]) -> None:
        await consumption.dispatch(subscriber.consumer, records)

    consumption.consumer = lambda: subscriber.consumer
    consumption.read = partial(reading, cast("DriverBroker", broker))
    return consumption


def follow(broker: KafkaBroker, topic: str, seen: Callable[[Record], None]) -> Callable[[], Any]:
    """Call `seen` with every record written after `broker.start()`; return a getter of the consumer.

    All partitions are read from their end, without a group or commits. If `seen` raises Rejected, the record is logged
    and skipped.
    """
    subscriber = broker.subscriber(topic, **_RAW_BATCHES, max_records=500, auto_offset_reset="latest")

    @subscriber  # type: ignore[untyped-decorator]  # likewise
    async def batch(records: list[Record]) -> None:
        for record in records:
            try:
                seen(record)
            except Rejected as error:
                log.warning("record_passed: %s: %s", _where(record), error.sentence)

    return lambda: subscriber.consumer


def stepped_aside(why: str) -> AbstractContextManager[Crowded]:
    """Run the block, in which a `Handle` waits for its turn at something, without holding up other keys' records.

    `why` is among what the operator is told, unless it is empty. What the block gets says whether the record should
    wait no longer, because it holds up others all the same.
    """
    return _aside.get()(why)


async def _readable_headers(raw: tuple[Record, ...], original: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return FastStream's message of a batch; its raw records keep their headers unchanged."""
    # FastStream decodes every header; one that is null or not UTF-8 would fail the whole batch.
    message = await original(tuple(map(_readable, raw)))
    message.raw_message = raw
    return message


def _readable(record: Record) -> Record:
    try:
        for _, value in record.headers:
            value.decode()
    except (AttributeError, UnicodeDecodeError):  # only now: copying every record would cost more than decoding it
        headers = tuple((name, (value or b"").decode(errors="replace").encode()) for name, value in record.headers)
        return replace(record, headers=headers)
    return record


async def _raw_records(message: Any) -> list[Record]:
    """Return the batch's records undecoded: the handler decodes each one, so that each can fail by itself."""
    return list(message.raw_message)


_RAW_BATCHES: dict[str, Any] = {
    "batch": True,
    "batch_timeout_ms": 50,
    "ack_policy": AckPolicy.MANUAL,
    "parser": _readable_headers,
    "decoder": _raw_records,
    "no_reply": True,  # else a foreign `reply_to` header would make us publish to the topic it names
}


class _Running(PartitionLane):
    """A lane with its running tasks."""

    def __init__(self, tp: TopicPartition, first: int, options: ConsumeOptions) -> None:
        super().__init__(first, options.chain_of, options.max_in_flight_bytes // 2)  # others of the partition have room
        self.tp = tp
        self.context = copy_context()  # of the task that reads
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting: dict[int, str] = {}  # offset -> what it waits for
        self.resting: dict[int, str] = {}  # offset -> why it is retried; holds up only its key
        self.closing = asyncio.Event()
        self.committed = first
        self.flushed = first  # may be committed: a commit of it was sent, and its reply may have got lost
        self.started = first  # no record from there on was started
        self.marked = 0  # the log knows that records below this offset may be under way
        self.suspects = 0  # below this offset, records may have been under way in a worker that ended uncleanly


@dataclass(eq=False)
class Consumption(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """The consumption of one topic, made by `consume`. Its counters are for metrics."""

    handle: Handle
    _: KW_ONLY
    topic: str
    group: str
    on_dead: OnDead
    stage: str
    handle_alone: Handle | None = None
    options: ConsumeOptions = ConsumeOptions()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        self.name = f"{self.stage}: {self.group} on {self.topic}"
        self._behind = (
            "Sluice skips nothing on its own: stop this process, choose where to continue with `sluice groups reset "
            f"--group {self.group} --to-earliest`, start it, and run `sluice verify --repair`"
        )
        self.handled = 0  # records done by `handle`
        self.dead = 0  # records dead-lettered
        self.retries = 0  # failed attempts that are repeated
        self.last_progress = time.monotonic()  # seconds, when a record was last finished
        self.lag: dict[TopicPartition, int] = {}  # records not finished, as last measured
        self.broken: str | None = None  # why it stopped permanently
        self.consumer: Callable[[], Any] = lambda: None
        self.read: Callable[[TopicPartition], AbstractAsyncContextManager[Reader]]
        self._lanes: dict[TopicPartition, _Running] = {}
        self._revoked: set[TopicPartition] = set()
        self._streak = 0
        self._stopping = False
        self._to_commit = asyncio.Event()
        self._committing = asyncio.Lock()
        self._background: tuple[asyncio.Task[None], ...] = ()
        self._repeated = AsyncExitStack()

    @property
    def in_flight(self) -> int:
        """Return how many records were received and aren't finished."""
        return sum(len(lane) for lane in self._lanes.values())

    @property
    def waiting(self) -> dict[TopicPartition, str]:
        """Return for each partition that waits for an unavailable service what its first such record waits for."""
        return {tp: next(iter(lane.waiting.values())) for tp, lane in self._lanes.items() if lane.waiting}

    async def stop(self) -> None:
        """Wait up to the drain time for running handlers, cancel the rest, commit. Afterwards no handler runs.

        Call it before `broker.stop()`.
        """
        if self._stopping:
            return
        self._stopping = True
        self._pause(self._assignment())
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, self._repeated.aclose(), return_exceptions=True)
        await self._close(list(self._lanes.values()))

    @property
    def retrying(self) -> dict[TopicPartition, list[str]]:
        """Return for each partition why its records with bounded tries are retried, or wait for their turn."""
        told = {tp: [*filter(None, lane.resting.values())] for tp, lane in self._lanes.items()}
        return {tp: sentences for tp, sentences in told.items() if sentences}

    # From FastStream

    async def dispatch(self, consumer: Any, records: Sequence[Record]) -> None:
        """Start handling a batch; returns without waiting for the handlers."""
        try:
            await self._take_over(consumer, records)
        except Exception:
            # FastStream would log the error and read on, and the next commit would skip these records.
            log.exception("consumption_failed: %s", self.name)
            self._break(f"{self.name}: failed by itself at {_where(records[0])}; see the log")

    async def _take_over(self, consumer: Any, records: Sequence[Record]) -> None:
        for (topic, partition), group in groupby(records, key=lambda record: (record.topic, record.partition)):
            tp, batch = TopicPartition(topic, partition), list(group)
            try:
                position = await consumer.position(tp)
            except (KafkaError, ConsumerStoppedError):
                continue
            # The batch is older than a rebalance: the partition was rewound to its commit, or isn't ours any more.
            if tp in self._revoked or tp not in consumer.assignment() or position <= batch[-1].offset:
                continue
            if self._stopping or self.broken is not None:
                return
            lane = self._lanes.get(tp)
            if lane is None:
                lane = self._lanes[tp] = _Running(tp, batch[0].offset, self.options)
            lane.take(batch)
            self._pump(lane)

    async def _mark(self, lane: _Running, offset: int) -> None:
        """Store that the record may be under way. The first mark of a lane reads what the last worker left."""
        try:
            async with self._committing:
                consumer = self.consumer()
                if consumer is None or offset < lane.marked:  # marked meanwhile
                    return
                if not lane.marked and (found := _MARK.fullmatch(await consumer.committed_metadata(lane.tp))):
                    # A mark is ahead of what was fetched; what arrives from now on was never under way.
                    lane.suspects = min(int(found[1]), (await consumer.end_offsets([lane.tp]))[lane.tp])
                    log.warning("records_read_alone: %s: below offset %d of %s", self.name, lane.suspects, lane.tp)
                mark = max(lane.suspects, lane.started + _AHEAD)
                await consumer.commit({lane.tp: (lane.flushed, _metadata(mark))})
                lane.marked = mark
        except (KafkaError, ConsumerStoppedError, Unavailable) as error:
            # Their handlers may run all the same: the next mark includes them.
            log.warning("records_not_marked: %s: %r", self.name, error)

    async def on_partitions_assigned(self, tps: Iterable[TopicPartition]) -> None:
        """Start consuming these partitions."""
        self._revoked -= set(tps)
        if self._stopping or self.broken is not None:
            self._pause(tps)
        elif not self._background:
            self._background = (asyncio.create_task(self._commit_for_ever(), name="consume-commit"),)
            repeat(self._repeated, self._measure, self.options.measure_every_s, "lag_unknown", consumption=self.name)

    async def on_partitions_revoked(self, tps: Iterable[TopicPartition]) -> None:
        """Stop consuming these partitions: wait for running handlers, commit, drop the rest."""
        going = set(tps)
        self._revoked |= going
        await self._close([lane for tp, lane in self._lanes.items() if tp in going])
        for tp in going:
            self.lag.pop(tp, None)

    # A lane

    def _pump(self, lane: _Running) -> None:
        if lane.closing.is_set():
            return
        most = max(1, self.options.key_concurrency // len(self._lanes))
        while len(lane.tasks) - len(lane.resting) < most:
            record = lane.start()
            if record is None:
                break
            lane.started = max(lane.started, record.offset + 1)
            # Another record's task may start this one, which must have nothing of it, such as that it is handled alone.
            lane.tasks.add(asyncio.create_task(self._run(lane, record), context=lane.context.copy()))
        self._regulate(lane)

    def _regulate(self, lane: _Running) -> None:
        if lane.closing.is_set():
            return
        fill = self._fill(lane)
        if fill >= 1 or lane.waiting:
            self._pause((lane.tp,))
        elif fill <= _READS_ON and (consumer := self.consumer()) is not None and lane.tp in consumer.paused():
            consumer.resume(lane.tp)

    def _fill(self, lane: _Running) -> float:
        handled = len(lane.tasks) - len(lane.resting)
        places = handled + (len(lane) - handled) / _WAITING_PER_PLACE - len(lane.left) * (1 - 1 / _LEFT_PER_PLACE)
        return max(places / self.options.max_in_flight, lane.bytes / self.options.max_in_flight_bytes)

    async def _run(self, lane: _Running, record: Record) -> None:
        finished = False
        try:
            if self.handle_alone is not None and record.offset >= lane.marked:
                await self._mark(lane, record.offset)
                if lane.closing.is_set():  # revoked or stopped meanwhile
                    return
            whole = await self._read_again(lane, record) if record.offset in lane.left else record
            if whole is None:
                finished = not lane.closing.is_set()
            else:
                # Records are handed over in batches, so that only a handler knows a record's trace. What is read again
                # long after, such as by a reindex, is only linked to it.
                past = now_ms() - record.timestamp > _A_DAY_MS
                with tracing.step(self.stage, header(whole, tracing.HEADER) or "", apart=past):
                    finished = await self._finished(lane, whole)
        except Exception:
            # Uncaught in this task, the error would leave the record unfinished for ever without a report.
            log.exception("consumption_failed: %s", self.name)
            self._break(f"{self.name}: failed by itself at {_where(record)}; see the log")
        finally:
            current = asyncio.current_task()
            if current is not None:
                lane.tasks.discard(current)
        if not finished or self._lanes.get(lane.tp) is not lane:
            return
        lane.finish(record)
        self.last_progress = time.monotonic()
        self._to_commit.set()
        self._pump(lane)

    async def _read_again(self, lane: _Running, record: Record) -> Record | None:
        """Return a record of which only the offset was held; None if compaction took it, or the lane was closed."""
        attempt = 0
        while not lane.closing.is_set():
            try:
                async with self.read(lane.tp) as reader:
                    found = await reader.at(lane.next_left(record))
                    # Only now, as retention may have deleted it before it was read; and this waits 0.5 s for a fetch.
                    start = 0 if record.offset in found else (await reader.bounds())[0]
            except Unavailable as error:
                lane.waiting[record.offset] = error.sentence
                self._regulate(lane)
                self.retries += 1
                await _rest(lane, self.options.backoff.delay(attempt))
                lane.waiting.pop(record.offset, None)
                attempt += 1
                continue
            for each in found.values():
                lane.restore(each)
            if record.offset < start:
                self._break(f"{self.name} stopped: {_where(record)} was deleted before it was handled. {self._behind}")
            return found.get(record.offset)
        return None

    async def _finished(self, lane: _Running, record: Record) -> bool:
        """Return whether the record is done: handled or dead-lettered. False: the lane was closed first."""
        outcome = await self._attempt(lane, record)
        if not isinstance(outcome, Failure):
            return outcome
        tracing.note("error.type", outcome.code)
        self._streak = self._streak + 1 if outcome.suspicious else 0
        if self._streak > BREAKER:
            self._break(
                f"{self.name} stopped: {self._streak} records in a row could not be read or met a bug, "
                f"last {_where(record)}: {outcome.sentence}. Nothing is lost: fix the cause and restart, then redrive "
                f"the dead letters: `sluice dlq redrive --stage {self.stage} --code {outcome.code}`"
            )
            return False
        return await self._set_aside(lane, record, outcome)

    async def _attempt(self, lane: _Running, record: Record) -> bool | Failure:
        """Return True if `handle` succeeded, a Failure if it failed permanently, False if the lane was closed."""
        _aside.set(partial(self._stepped_aside, lane, record))
        failure = partial(Failure, stage=self.stage, first_seen=now_ms())
        attempts = outages = bugs = doubts = 0
        handle = (record.offset < lane.suspects and self.handle_alone) or self.handle
        try:
            while True:
                attempts += 1
                try:
                    check_intact(record)
                    await handle(record)
                except RetryLater as error:
                    doubts += 1
                    if error.tries is not None and doubts >= error.tries:
                        return failure(code=error.code, sentence=error.sentence, attempts=attempts, last_seen=now_ms())
                    log.info("record_retried: %s at %s: %s", self.name, _where(record), error.sentence)
                    lane.waiting.pop(record.offset, None)
                    lane.resting[record.offset] = error.sentence
                    self._pump(lane)
                    pause = error.after_s
                except Unavailable as error:
                    lane.waiting[record.offset] = error.sentence
                    self._regulate(lane)
                    pause = self.options.backoff.delay(outages)
                    outages += 1
                except Rejected as error:
                    return failure(code=error.code, sentence=error.sentence, attempts=attempts, last_seen=now_ms())
                except Exception as error:
                    bugs += 1
                    log.exception("bug: %s at %s, attempt %d", self.name, _where(record), bugs)
                    if bugs >= BUG_ATTEMPTS:
                        digest = traceback_digest(error)
                        return failure(
                            code="bug", sentence=_BUG, attempts=attempts, last_seen=now_ms(), traceback_digest=digest
                        )
                    lane.waiting.pop(record.offset, None)
                    pause = self.options.bug_backoff.delay(bugs - 1)
                else:
                    self.handled += 1
                    self._streak = 0
                    return True
                self.retries += 1
                rested = await _rest(lane, pause)
                lane.resting.pop(record.offset, None)
                if not rested:
                    return False
        finally:
            lane.waiting.pop(record.offset, None)
            lane.resting.pop(record.offset, None)

    @contextmanager
    def _stepped_aside(self, lane: _Running, record: Record, why: str) -> Iterator[Crowded]:
        began, within = now_ms(), lane.resting.get(record.offset)
        lane.resting[record.offset] = why or within or ""
        self._pump(lane)
        try:
            yield lambda: self._fill(lane) > _READS_ON or lane.is_followed(record) or now_ms() - began >= _ASIDE_MS
        finally:
            if within is None:
                lane.resting.pop(record.offset, None)
            else:
                lane.resting[record.offset] = within

    async def _set_aside(self, lane: _Running, record: Record, failure: Failure) -> bool:
        """Return whether `on_dead` stored the record. Whatever it raises, it is called again: nothing may be lost."""
        attempt = 0
        try:
            while True:
                try:
                    await self.on_dead(record, failure)
                except Exception as error:
                    if not isinstance(error, Unavailable):
                        log.exception("dead_letter_failed: %s at %s", self.name, _where(record))
                    lane.waiting[record.offset] = f"a dead letter can't be stored: {error}"
                    self._regulate(lane)
                else:
                    self.dead += 1
                    log.warning("record_set_aside: %s at %s: %s", self.name, _where(record), failure.sentence)
                    return True
                self.retries += 1
                if not await _rest(lane, self.options.backoff.delay(attempt)):
                    return False
                attempt += 1
        finally:
            lane.waiting.pop(record.offset, None)

    # Ends

    async def _close(self, lanes: Sequence[_Running]) -> None:
        for lane in lanes:
            lane.closing.set()
        if running := {task for lane in lanes for task in lane.tasks}:
            _, late = await asyncio.wait(running, timeout=self.options.drain_s)
            for task in late:
                task.cancel()
            for lane in lanes:
                if self.handle_alone is not None and lane.tasks & late:  # whatever holds them may have to be killed
                    lane.suspects = lane.started
            if late:
                log.warning("drain_timed_out: %s: %d records handed back", self.name, len(late))
                await asyncio.wait(late)
        try:
            async with asyncio.timeout(self.options.drain_s):
                await self._commit(lanes)
        except Exception as error:  # noqa: BLE001 - the partition's next owner handles uncommitted records again
            log.warning("last_commit_failed: %s: %r", self.name, error)
        for lane in lanes:
            if self._lanes.get(lane.tp) is lane:
                del self._lanes[lane.tp]

    def _break(self, sentence: str) -> None:
        if self.broken is not None:
            return
        self.broken = sentence
        log.error("consumption_broken: %s", sentence)
        self._pause(self._assignment())
        current = asyncio.current_task()
        for lane in self._lanes.values():
            lane.closing.set()
            for task in lane.tasks - {current}:
                task.cancel()

    def _assignment(self) -> frozenset[TopicPartition]:
        consumer = self.consumer()
        return frozenset() if consumer is None else frozenset(consumer.assignment())

    def _pause(self, tps: Iterable[TopicPartition]) -> None:
        consumer = self.consumer()
        for tp in tps:
            if consumer is not None and tp in consumer.assignment():
                consumer.pause(tp)

    # Commits

    async def _commit_for_ever(self) -> None:
        attempt = 0
        while self.broken is None:
            await self._to_commit.wait()
            self._to_commit.clear()
            try:
                await self._commit(list(self._lanes.values()))
            except Exception as error:
                if not isinstance(error, Unavailable | KafkaError):
                    log.exception("commit_failed: %s", self.name)
                elif attempt == 0:
                    log.warning("commit_failed: %s: %s", self.name, error)
                self._to_commit.set()
                await asyncio.sleep(self.options.backoff.delay(attempt))
                attempt += 1
            else:
                attempt = 0
                await asyncio.sleep(self.options.commit_every_s)

    async def _commit(self, lanes: Sequence[_Running]) -> None:
        """Commit these lanes' finished offsets: read the offsets first, then flush, then commit."""
        async with self._committing:
            lows = {
                lane: low
                for lane in lanes
                if (low := lane.low) != lane.committed or (lane.marked and lane.closing.is_set())
            }
            if not lows or self.broken is not None:
                return
            if self.options.before_commit is not None:
                await self.options.before_commit()
            consumer = self.consumer()
            # Lanes closed meanwhile have committed by themselves, or belong to another worker.
            lows = {lane: low for lane, low in lows.items() if self._lanes.get(lane.tp) is lane}
            if not lows or consumer is None or self.broken is not None:
                return
            marks = {lane: self._mark_of(lane, low) for lane, low in lows.items()}
            for lane, low in lows.items():
                lane.flushed = low
            try:
                await consumer.commit({lane.tp: (low, _metadata(marks[lane])) for lane, low in lows.items()})
            except (CommitFailedError, IllegalStateError) as error:
                # A lane isn't ours any more: it will be closed, and the others commit in the next round.
                raise Unavailable(f"an assignment has changed: {error}", "rebalance") from error
            for lane, low in lows.items():
                lane.committed, lane.marked = low, marks[lane]

    def _mark_of(self, lane: _Running, low: int) -> int:
        """Return the mark to commit with `low`: the offset below which records may be under way, 0 if none will be."""
        ended = lane.closing.is_set() and not lane.tasks
        end = lane.suspects if ended or self.handle_alone is None else max(lane.suspects, lane.started + _AHEAD)
        return end if end > low else 0

    # Measures

    async def _measure(self) -> None:
        consumer = self.consumer()
        if consumer is None or self.broken is not None:
            return
        try:
            # In this order: a position never exceeds an end that was read after it.
            positions = {tp: await consumer.position(tp) for tp in consumer.assignment()}
            starts, ends = await consumer.beginning_offsets(positions), await consumer.end_offsets(positions)
            later = {tp: await consumer.position(tp) for tp in positions if tp in consumer.assignment()}
        except (KafkaError, ConsumerStoppedError) as error:
            raise Unavailable(str(error) or type(error).__name__, "log_unavailable") from error
        for tp in later.keys() & consumer.assignment():
            position, lane = positions[tp], self._lanes.get(tp)
            self.lag[tp] = ends[tp] - (position if lane is None else lane.low)
            if position > ends[tp] or later[tp] < starts[tp]:
                self._break(
                    f"{self.name} stopped: its offset {position} of {tp.topic}/{tp.partition} is out of range, the "
                    f"log holds {starts[tp]} to {ends[tp]}: records were deleted before they were read. {self._behind}"
                )


def _metadata(mark: int) -> str:
    return f"under-way:{mark}" if mark else ""


async def _rest(lane: _Running, seconds: float) -> bool:
    """Return True after the pause, or False as soon as the lane is closed."""
    try:
        async with asyncio.timeout(seconds):
            await lane.closing.wait()
    except TimeoutError:
        return True
    return False


def _where(record: Record) -> str:
    return f"{record.topic}/{record.partition}/{record.offset}"
